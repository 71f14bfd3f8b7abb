"""A budget in seconds decides how much of the sequence of proposals is measured, and never what is proposed."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metasched.database.base import Database
from metasched.database.database_registry import open_database
from metasched.measure.records import Failure, MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan
from metasched.search.proposal import Guesses
from tests.support.toy_search import ToyRunner, ToySpace, key, toy_session, tuned

SLOW = "[0, 1, 64, 1, 64]"
GUESSES = Guesses(SLOW, SLOW)


class Clock:
    """Goes on when something is measured, and a little whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-4
        return self.now


class Timed(ToyRunner):
    """Takes `build_s` and `visit_s` for each visit of a candidate, by a clock."""

    def __init__(self, clock: Clock, build_s: float, visit_s: float) -> None:
        super().__init__(ToySpace())
        self.clock, self.build_s, self.visit_s = clock, build_s, visit_s

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        found = super().measured(candidate, code, plan)
        run_s = self.visit_s * len(found.visits)
        self.clock.now += self.build_s / 2 + run_s
        return replace(found, phases=(("build", self.build_s), ("run", run_s)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.perf_counter", made)
    return made


@pytest.fixture
def clock_of_all(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Also that of those who wait."""
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def run(database: Database, runner: Timed, budget: float) -> tuple[float, Any]:
    start = runner.clock.now
    with toy_session(database, runner, guesses=GUESSES) as session:
        (report,) = session.run(budget=budget)
    return runner.clock.now - start, report


@pytest.mark.parametrize(("budget", "build_s", "visit_s"), [(20, 1.0, 0.02), (60, 0.1, 0.9), (3, 0.05, 0.02)])
def test_a_budget_is_kept_with_the_turns_at_the_end(
    database: Database, clock: Clock, budget: float, build_s: float, visit_s: float
) -> None:
    taken, report = run(database, Timed(clock, build_s, visit_s), budget)
    assert taken < 1.1 * budget
    assert taken > 0.7 * budget or report.exhausted
    assert report.over_guess is not None, "the best and the guess were timed in turns"
    assert not report.is_guess


def test_calls_that_take_longer_than_the_budget_leave_the_guess(database: Database, clock: Clock) -> None:
    runner = Timed(clock, 0.1, 10.0)
    _, report = run(database, runner, 5)
    assert (runner.traces, report.is_guess) == ([SLOW], True)
    assert runner.again == [], "there is no time for turns"


def test_what_is_proposed_does_not_depend_on_the_clock(tmp_path: Path, clock: Clock) -> None:
    runners = [Timed(clock, 0.2, 0.05) for _ in range(4)]
    with open_database(f"sqlite:///{tmp_path}/parts.db") as database:
        for runner, budget in zip(runners[:3], (2.0, 4.5, 7.0), strict=True):
            run(database, runner, budget)
        parts = [record.trace for record in database.records(key().task)]
    with open_database(f"sqlite:///{tmp_path}/whole.db") as database:
        tuned(database, len(parts), runners[3], guesses=GUESSES)
    assert all(runner.traces for runner in runners)
    assert parts == runners[3].traces


class Hung(Future[Measurement]):
    """Time passes whenever somebody looks whether it is done, and it never is."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def done(self) -> bool:
        self.clock.now += 0.25
        return super().done()


def test_what_hangs_when_the_time_is_up_is_given_up_and_the_rest_is_kept(
    database: Database, clock_of_all: Clock
) -> None:
    class Hanging(Timed):
        hung: list[Hung]

        def submit(self, *given, **more):  # type: ignore[no-untyped-def]
            if len(self.traces) == 6:
                self.hung.append(Hung(clock_of_all))
                return self.hung[-1]
            return super().submit(*given, **more)

    runner = Hanging(clock_of_all, 1e-3, 1e-4)
    runner.hung = []
    with toy_session(database, runner, guesses=GUESSES) as session:
        (report,) = session.run(budget=1.0)
    assert runner.hung
    assert all(future.cancelled() for future in runner.hung)
    assert report.records == 6
    assert tuned(database, 20, ToyRunner(ToySpace()), guesses=GUESSES).records == 20


@pytest.mark.parametrize("hangs", [False, True])
def test_what_ends_a_measurement_is_raised_and_is_no_lack_of_time(
    database: Database, clock_of_all: Clock, hangs: bool
) -> None:
    class Failing(Timed):
        submitted = 0

        def submit(self, *given, **more):  # type: ignore[no-untyped-def]
            self.submitted += 1
            if self.submitted < 6:
                return super().submit(*given, **more)
            if self.submitted == 6 and hangs:
                return Hung(clock_of_all)
            future: Future[Measurement] = Future()
            future.set_exception(TimeoutError("of a network"))
            return future

    session = toy_session(database, Failing(clock_of_all, 1e-3, 1e-4), guesses=GUESSES)
    with session, pytest.raises(TimeoutError, match="of a network"):
        session.run(budget=1.0)


class Stuck(Timed):
    """Whose candidates, but for some, are ended after `limit_s`, one after the other, with no time."""

    limit_s = 2.0
    good: frozenset[str] = frozenset()

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        found = super().measured(candidate, code, plan)
        return found if candidate.trace in self.good else replace(found, visits=(), failure=Failure("run-timeout"))

    def submit(self, *given: Any, **more: Any) -> Future[Measurement]:
        start = self.clock.now
        future: Late = Late(self.clock, max(start, self.free_at) + self.limit_s)
        self.free_at = future.until
        future.result_of = super().submit(*given, **more).result()
        self.clock.now = start
        return future

    free_at = 0.0


class Late(Future[Measurement]):
    """Is done at a time. Time passes whenever somebody looks."""

    result_of: Measurement

    def __init__(self, clock: Clock, until: float) -> None:
        super().__init__()
        self.clock, self.until = clock, until
        self.others: list[Late] = []

    @property
    def is_due(self) -> bool:
        return self.clock.now >= self.until

    def done(self) -> bool:
        self.clock.now += Stuck.limit_s / 16
        is_due = self.is_due and all(other.cancelled() or other.is_due for other in self.others)
        if is_due and not super().done() and self.set_running_or_notify_cancel():
            phases = (("build", 0.1), ("run", Stuck.limit_s))
            self.set_result(replace(self.result_of, phases=phases))
        return super().done()


@pytest.mark.parametrize("budget", [5.0, 8.0])
def test_a_budget_is_kept_where_the_first_candidates_are_ended_for_taking_too_long(
    database: Database, clock_of_all: Clock, budget: float
) -> None:
    runner = Stuck(clock_of_all, 0.1, 0.1)
    start = clock_of_all.now
    with toy_session(database, runner, guesses=GUESSES) as session:
        (report,) = session.run(budget=budget)
    assert 0.9 * budget < clock_of_all.now - start < 1.1 * budget
    assert runner.traces[0] == SLOW
    assert report.records == budget // Stuck.limit_s


def test_a_guess_that_is_visited_in_turns_with_others_is_soon_alone(
    database: Database, clock_of_all: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it seems that there is plenty of time, all are begun at once."""

    class InTurns(Stuck):
        """Whose guess is done once the others are, or were given up."""

        def submit(self, *given: Any, **more: Any) -> Future[Measurement]:
            future = super().submit(*given, **more)
            assert isinstance(future, Late)
            if self.traces == [SLOW]:
                self.guess = future
            else:
                self.guess.others.append(future)
            return future

    monkeypatch.setattr(Stuck, "limit_s", 6.0)
    runner = InTurns(clock_of_all, 0.1, 0.1)
    runner.good = frozenset({SLOW})
    start = clock_of_all.now
    with toy_session(database, runner, guesses=GUESSES) as session:
        (report,) = session.run(budget=24)
    assert runner.guess.others
    assert clock_of_all.now - start < 1.1 * 24
    assert (report.records, report.is_guess) == (1, True)
