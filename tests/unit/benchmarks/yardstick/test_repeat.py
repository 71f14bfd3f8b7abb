"""Timing again: which candidates were disturbed, and what becomes of their times."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import metasched as ms
from benchmarks.yardstick.data import TimedTask, obstacle_to_adding, read_tasks
from benchmarks.yardstick.repeat import (
    disturbed_codes,
    disturbed_share,
    lesser_times,
    main,
    newer_times,
    repeat_codes,
    repeat_pools,
    write,
)


class FakeRunner:
    """Gives every candidate the same times, but for the first, which fails."""

    def __init__(self) -> None:
        self.traces: list[str] = []

    def submit(self, program: object, trace: str, target: str, plan: object) -> Future[Any]:
        self.traces.append(trace)
        failure = SimpleNamespace(reason="crash") if len(self.traces) == 1 else None
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(failure=failure, visits=[(1e-6, 2e-6, 3e-6), (2.1e-6,)]))
        return future


@pytest.fixture
def task(data: Path) -> TimedTask:
    return next(read_tasks(data))


def with_times(task: TimedTask, longer: dict[int, float]) -> TimedTask:
    """The same candidates; the second time of some is so many times the first."""
    codes = [replace(code, second_s=code.first_s * longer.get(n, 1.05)) for n, code in enumerate(task.codes)]
    return replace(task, codes=tuple(codes))


def test_a_candidate_is_disturbed_if_its_times_differ_by_a_tenth(task: TimedTask) -> None:
    assert disturbed_codes(task) == []
    assert disturbed_codes(with_times(task, {3: 1.2, 5: 1 / 1.2})) == [3, 5]
    assert disturbed_share(with_times(task, {3: 1.2, 5: 1 / 1.2})) == 2 / len(task.codes)
    assert disturbed_share(replace(task, codes=())) == 0.0


def test_only_what_was_disturbed_has_new_times(task: TimedTask) -> None:
    runner, before = FakeRunner(), with_times(task, {3: 1.2, 5: 1.3, 7: 0.5})
    after = repeat_codes(before, runner, disturbed_codes(before))  # type: ignore[arg-type]
    assert len(set(runner.traces)) == 3
    assert after.codes[3] == before.codes[3], "what fails now keeps its times"
    changed = [n for n, (a, b) in enumerate(zip(before.codes, after.codes, strict=True)) if a != b]
    assert changed == [5, 7]
    assert {(after.codes[n].first_s, after.codes[n].second_s) for n in changed} == {(2e-6, 2.1e-6)}
    assert replace(after, codes=before.codes) == before
    assert [(code.sketch, code.row) for code in after.codes] == [(code.sketch, code.row) for code in before.codes]


def test_a_file_is_written_whole(task: TimedTask, data: Path) -> None:
    tasks = list(read_tasks(data))
    write(tasks[::-1], data)
    assert list(read_tasks(data)) == tasks[::-1]
    assert [path.name for path in data.parent.iterdir()] == [data.name]


def test_all_candidates_of_named_pools_have_new_times(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, before = list(read_tasks(data)), list(read_tasks(data))
    named = tasks[0].spec.name
    repeat_pools(tasks, [named], FakeRunner(), data, newer_times)  # type: ignore[arg-type]
    assert list(read_tasks(data)) == tasks
    for old, new in zip(before, tasks, strict=True):
        changed = sum(a != b for a, b in zip(old.codes, new.codes, strict=True))
        assert changed == (len(old.codes) - (old is before[0]) if named in old.spec.name else 0)
    assert f"{named} (" in capsys.readouterr().out


def test_of_a_pool_that_was_disturbed_the_lesser_times_are_kept(data: Path) -> None:
    tasks, before = list(read_tasks(data)), list(read_tasks(data))
    tasks[0] = with_times(tasks[0], {3: 1e-9})
    was_less, earlier = tasks[0].codes[3].second_s, tasks[0].codes
    repeat_pools(tasks, [tasks[0].spec.name], FakeRunner(), data, lesser_times)  # type: ignore[arg-type]
    assert tasks[0].codes[3].second_s == was_less < 2.1e-6
    assert [(code.sketch, code.row) for code in tasks[0].codes] == [(code.sketch, code.row) for code in before[0].codes]
    for old, new in zip(earlier[1:], tasks[0].codes[1:], strict=True):
        assert (new.first_s, new.second_s) == (min(old.first_s, 2e-6), min(old.second_s, 2.1e-6))


def test_times_of_two_cpus_are_not_put_into_one_file(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, before = list(read_tasks(data)), data.read_bytes()
    here = ms.Target.parse(tasks[0].target)
    assert obstacle_to_adding(tasks, replace(here, threads=here.threads + 1)) is None
    assert obstacle_to_adding([], here) is None
    other = replace(here, name="another")
    monkeypatch.setattr("metasched.Target.detect", lambda threads: other)
    monkeypatch.setattr("sys.argv", ["repeat", "--data", str(data)])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert f"measured on {here.name}, and this machine is another" in said
    assert "--data FILE" in said
    assert data.read_bytes() == before
