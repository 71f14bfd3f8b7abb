"""What is timed again at the end of a run, for which there is time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from metasched.search import settling
from metasched.search.batch import BatchMeasuring
from metasched.search.records.task_records import TaskRecords
from metasched.search.settling import Settling


def settling_of(measuring: Any, **known: Any) -> Settling:
    found = SimpleNamespace(**{"trial_count": 4, "repeats": 0, "contenders": list, **known})
    return Settling(cast("TaskRecords", found), cast("BatchMeasuring", measuring), 0, Mock())


def test_what_it_takes_is_worked_out_anew_when_something_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = Mock(side_effect=[(2.0, 1.0), (4.0, 3.0)])
    monkeypatch.setattr(settling, "contest_seconds", seconds)
    found = settling_of(Mock())
    assert found.expected_s(3) == found.expected_s(3) == (2.0, 1.0)
    found._known.trial_count = 5  # type: ignore[misc]
    assert found.expected_s(3) == (4.0, 3.0)


@pytest.mark.parametrize(("measured", "until", "repeated"), [(0, None, 0), (1, None, 4), (1, 1e9, 4), (1, 0.0, 0)])
def test_repetitions_are_for_what_was_measured_and_in_time(
    monkeypatch: pytest.MonkeyPatch, measured: int, until: float | None, repeated: int
) -> None:
    monkeypatch.setattr(settling, "contest", lambda *_: [])
    monkeypatch.setattr(settling, "last_repeats", lambda *_: [Mock() for _ in range(4)])
    monkeypatch.setattr(settling, "turns_seconds", lambda again: 0.5 * len(again))
    measuring = Mock(measured=measured, measure_again=Mock(return_value=[]))
    settling_of(measuring).settle(3, until)
    assert [len(call.args[1]) for call in measuring.measure_again.call_args_list] == ([repeated] if repeated else [])
