"""Seconds of a call, and seconds by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from metasched.support import stopwatch
from metasched.support.stopwatch import Stopwatch, seconds_of


def test_names_come_in_order() -> None:
    watch = Stopwatch(["a", "b"])
    with watch.timed("c"):
        pass
    watch.add("b", 2.0)
    watch.add("b", 1.0)
    assert list(watch.seconds()) == ["a", "b", "c"]
    assert (watch.seconds()["a"], watch.seconds()["b"]) == (0.0, 3.0)


def test_what_is_told_is_a_copy() -> None:
    watch = Stopwatch()
    watch.seconds()["a"] = 1.0
    assert watch.seconds() == {}


def test_time_counts_where_it_is_spent_also_when_a_body_fails() -> None:
    watch = Stopwatch()
    try:
        with watch.timed("outer"), watch.timed("inner"):
            raise KeyError
    except KeyError:
        pass
    assert set(watch.seconds()) == {"outer", "inner"}
    assert all(seconds >= 0 for seconds in watch.seconds().values())


def test_nested_time_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 6.0, 8.0])
    # The clock of the process is left alone: other threads read it.
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    watch = Stopwatch()
    with watch.timed("outer"), watch.timed("inner"):
        pass
    assert watch.seconds() == {"inner": 5.0, "outer": 3.0}


def test_a_call_is_timed_from_its_beginning_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1.0]
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    assert seconds_of(lambda: clock.__setitem__(0, 3.5)) == 2.5
