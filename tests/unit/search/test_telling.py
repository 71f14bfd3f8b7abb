"""What is told of a search after each measurement."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

import metasched as ms
from metasched.report.progress import Progress
from metasched.search.records.task_records import TaskRecords
from metasched.search.telling import Telling

PROGRAM = ms.operator("matmul_nn", M=8, N=8, K=8)


def records(**known: Any) -> TaskRecords:
    stagnation = SimpleNamespace(since=3, is_reached=False)
    found = {"trial_count": 5, "fastest_s": lambda: 1e-6, "stagnation": lambda: stagnation, "failures": dict}
    return cast("TaskRecords", SimpleNamespace(**{**found, **known}))


def test_what_is_left_goes_by_the_measurements_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first waits for workers and for the expected result."""
    clock = Mock(return_value=100.0)
    monkeypatch.setattr(time, "perf_counter", clock)
    told: list[Progress] = []
    found = Telling(PROGRAM, records(), told.append, started=90.0)
    each = Mock(side_effect=lambda seconds: seconds and 2 * seconds)
    found.tell(1, 7, each)
    clock.return_value = 103.0
    found.tell(3, 7, each)
    assert [call.args[0] for call in each.call_args_list] == [None, 1.5]
    assert [(one.elapsed_s, one.left_s, one.total) for one in told] == [(10.0, None, 7), (13.0, 3.0, 7)]
    assert (told[0].trials, told[0].since_gain) == (5, 3)
    assert told[0].gflops == pytest.approx(2 * 8**3 / 1e-6 / 1e9)


def test_nothing_is_fast_before_the_first_success() -> None:
    told: list[Progress] = []
    Telling(PROGRAM, records(fastest_s=lambda: None), told.append, started=0.0).tell(1, None, lambda each: each)
    assert (told[0].best_s, told[0].gflops, told[0].gops) == (None, None, None)
