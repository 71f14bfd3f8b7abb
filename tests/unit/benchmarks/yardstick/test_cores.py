"""Other constants of a core must rank no task worse."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.yardstick import cores
from benchmarks.yardstick.cores import TOLERANCE, changes
from tests.unit.benchmarks.yardstick.conftest import MakeSamples


def test_a_task_that_is_ranked_worse_comes_first(made_up: MakeSamples) -> None:
    before = [made_up("a", "a"), made_up("b", "b"), made_up("c", "c")]
    after = [before[0], replace(before[1], features=-before[1].features), before[2]]
    worst, *others = changes(before, after)
    assert worst.task == "b"
    assert worst.is_worse
    assert worst.after == pytest.approx(1 - worst.before)
    assert [other.gain for other in others] == [0.0, 0.0]
    assert not any(other.is_worse for other in others)
    assert [change.task for change in changes(after, before)] == ["a", "c", "b"]


def test_a_small_change_is_not_counted(made_up: MakeSamples) -> None:
    before = made_up("a", "a")
    features = before.features.copy()
    column = int(features.max(axis=0).argmax())
    low, high = features[:, column].argsort()[:2]
    features[[low, high]] = features[[high, low]]  # one pair changes places
    (change,) = changes([before], [replace(before, features=features)])
    assert abs(change.gain) < TOLERANCE
    assert not change.is_worse


def test_what_is_compared_has_the_same_candidates(made_up: MakeSamples) -> None:
    with pytest.raises(ValueError, match=r"a \(space\) is compared with b \(space\)"):
        changes([made_up("a", "a")], [made_up("b", "b")])


def test_the_command_fails_where_a_task_is_ranked_worse(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    constants = tmp_path / "core.json"
    constants.write_text('{"parallel_launch": 9000.0}', encoding="utf-8")
    command = ["cores", str(constants), "--data", str(data), "--processes", "1", "--kept", str(tmp_path / "kept")]
    monkeypatch.setattr(sys, "argv", command)
    assert cores.main() == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert last == "2 tasks, +0.0000 at the mean; 0 are ranked worse by more than 0.01"
    monkeypatch.setattr(cores, "TOLERANCE", -1.0)  # nothing is good enough
    assert cores.main() == 1
