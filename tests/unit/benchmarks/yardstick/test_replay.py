"""The measurements go with the code: their sketches replay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.yardstick import replay
from benchmarks.yardstick.data import read_tasks
from benchmarks.yardstick.tasks import tasks
from metasched.operators import TWELVE

MEASURED = list(read_tasks())


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["replay", *arguments])
    return replay.main()


def test_the_command_succeeds_where_every_sketch_replays(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "--data", str(data)) == 0
    assert capsys.readouterr().out == "2 pools of tasks, 0 sketches that do not replay\n"


def test_the_command_fails_and_names_the_sketch_where_one_does_not(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = data.read_text(encoding="utf-8")
    data.write_text(text.replace("vectorize(j1", "vectorise(j1"), encoding="utf-8")
    assert command(monkeypatch, "--data", str(data)) == 1
    out = capsys.readouterr().out
    assert "small (space), sketch 0: its trace does not replay" in out
    assert "2 sketches that do not replay" in out


def test_the_command_fails_without_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "--data", str(tmp_path / "none.jsonl")) == 1


def test_what_is_measured_is_what_the_list_of_tasks_has() -> None:
    listed = {spec.name: spec for spec in tasks()}
    assert {task.spec.name for task in MEASURED} <= set(listed)
    assert all(task.family == listed[task.spec.name].family for task in MEASURED)
    assert {task.suite for task in MEASURED if task.suite is not None} == set(TWELVE)
    assert len({(task.spec.name, task.pool) for task in MEASURED}) == len(MEASURED) > 140


@pytest.mark.parametrize("number", range(0, len(MEASURED), 12))
def test_a_sketch_of_the_measurements_replays(number: int) -> None:
    """Of every twelfth task the first one; the command of this module looks at all."""
    assert list(replay.problems_of(MEASURED[number], sketches=1)) == []
