"""Schedulers by name, and sessions whose order they choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from metasched.database.base import Database
from metasched.database.database_registry import open_database
from metasched.errors import MetaschedError
from metasched.lang import parse_program
from metasched.measure.records import CheckError
from metasched.measure.timing import Surroundings
from metasched.search.proposal import Guesses
from metasched.search.scheduler_registry import SCHEDULERS, SchedulerInputs
from metasched.search.session import TuningSession
from metasched.search.several_tasks.task_progress import TaskFacts, TaskProgress
from tests.support.toy_search import TEXT, ToyRunner, ToySpace, ToyTask, strategy

GUESSES = Guesses("[0, 1, 64, 1, 64]", "[0, 1, 64, 1, 64]")


def session(database: Database, tasks: int, **settings: object) -> TuningSession:
    made = [ToyTask(ToySpace(), GUESSES, parse_program(TEXT, N=8 + n)) for n in range(tasks)]
    given = {"runner": ToyRunner(ToySpace()), "strategy": strategy, "progress": False, **settings}
    return TuningSession(made, db=database, **given)  # type: ignore[arg-type]


def test_every_scheduler_ends_when_nothing_is_open() -> None:
    assert {"gradient", "round_robin"} <= set(SCHEDULERS.names())
    for name in SCHEDULERS.names():
        closed = TaskProgress(0, False, lambda: TaskFacts(1, 1e-6, ""), lambda: ())
        assert SCHEDULERS.get(name)(SchedulerInputs([{0: 1.0}])).next([closed], None) is None
    with pytest.raises(MetaschedError, match="there is no task scheduler `gradent`\n  hint: did you mean `gradient`"):
        SCHEDULERS.resolve("gradent")


class Backwards:
    """The last task that is open; it notes what it saw."""

    def __init__(self, given: SchedulerInputs) -> None:
        self.given = given
        self.seen: list[tuple[int, ...]] = []

    def next(self, tasks: Sequence[TaskProgress], last: int | None) -> int | None:
        self.seen.append(tuple(task.trials for task in tasks))
        return next((task.number for task in reversed(tasks) if task.is_open), None)


def test_a_session_asks_the_scheduler_it_is_given(database: Database) -> None:
    made: list[Backwards] = []

    def scheduler(given: SchedulerInputs) -> Backwards:
        made.append(Backwards(given))
        return made[0]

    with session(database, 2, scheduler=scheduler, networks=[{0: 3.0, 1: 1.0}], seed=5) as tuning:
        steps = [tuning.step(trials=16) for _ in range(5)]
    assert [step.task for step in steps if step is not None] == [1, 1, 0, 0]
    assert steps[-1] is None
    assert (made[0].given.seed, made[0].given.networks) == (5, ({0: 3.0, 1: 1.0},))
    assert made[0].seen[-1] == (16, 16)


def test_all_tasks_together_have_so_many_trials(database: Database) -> None:
    with session(database, 3, scheduler="gradient") as tuning:
        reports = tuning.run(total=40)
    assert sum(report.records for report in reports) == 40
    with session(database, 3, scheduler="gradient", runner="local") as again:
        assert [r.measured for r in again.run(total=40)] == [0, 0, 0], "the same call again measures nothing"


def test_a_session_in_two_parts_chooses_as_one_does(tmp_path: Path) -> None:
    def chosen(file: str, total: int) -> list[int]:
        found = []
        url = f"sqlite:///{tmp_path}/{file}.db"
        with (
            open_database(url) as database,
            session(database, 3, scheduler="gradient", networks=[{0: 1.0, 1: 5.0, 2: 2.0}]) as tuning,
        ):
            while sum(task.trials for task in tuning.progress) < total and (step := tuning.step()) is not None:
                # The last batch of each task is proposed again, and nothing of it is new.
                found += [step.task] * (step.measured > 0)
        return found

    whole = chosen("one", 60)
    first = chosen("two", 32)
    assert whole == first + chosen("two", 60)
    assert whole.index(1) == 0, "what runs most often is first"


def test_a_task_that_cannot_be_checked_does_not_end_the_others(database: Database) -> None:
    class Unchecked(ToyRunner):
        def prepare(self, program, inputs=None):  # type: ignore[no-untyped-def]
            if "N=9" in program.key:
                raise CheckError("most of `B` is not finite")

    with session(database, 3, runner=Unchecked(ToySpace())) as tuning:
        reports = tuning.run(trials=12)
        assert tuning.unchecked == {1: "most of `B` is not finite"}
    assert [report.records for report in reports] == [12, 0, 12]
    alone = ToyTask(ToySpace(), GUESSES, parse_program(TEXT, N=9))
    with (
        TuningSession([alone], db=database, runner=Unchecked(ToySpace()), strategy=strategy, progress=False) as tuning,
        pytest.raises(CheckError),
    ):
        tuning.run(trials=2)


def test_times_with_cold_constants_are_records_of_their_own(database: Database) -> None:
    plans: list[str] = []

    class Noting(ToyRunner):
        def submit(self, program, trace, target, best_s=None, **more):  # type: ignore[no-untyped-def]
            plan = more["plan"]
            plans.append("" if plan is None else plan.surroundings)
            return super().submit(program, trace, target, best_s, **more)

    counts = []
    for surroundings in (Surroundings.ALONE, Surroundings.MEMORY):
        del plans[:]
        task = ToyTask(ToySpace(), GUESSES, surroundings=surroundings)
        with TuningSession([task], db=database, runner=Noting(ToySpace()), strategy=strategy, progress=False) as tuning:
            (report,) = tuning.run(trials=12)
        counts.append((report.records, report.measured))
        assert set(plans) == {surroundings.value}, "guesses, candidates, repetitions and turns alike"
    assert counts == [(12, 12), (12, 12)]
    assert [stats.task.surroundings for stats in database.stats().tasks] == ["", "network, constants from memory"]
