"""The tuning loop: nothing is measured twice, an interrupted run goes on as if it had not been."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from metasched.cost.model import CostModel
from metasched.database import sqlite
from metasched.database.base import Database
from metasched.database.best import best_of, best_record
from metasched.database.database_registry import open_database
from metasched.database.record import NO_TRIAL, DatabaseError, Record, Role, TaskKey
from metasched.measure.executor_registry import OpenedOnce
from metasched.measure.records import Failure, MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan
from metasched.report.progress import Progress
from metasched.search.contest import REPEATS
from metasched.search.proposal import Guesses
from metasched.search.records.earlier_searches import SEEDS
from metasched.search.session import TuningSession
from metasched.search.space_protocol import Candidate, Observation, Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import StrategyInputs
from tests.support.toy_search import ToyRunner, ToySpace, ToyTask, key, strategy, toy_session, tuned
from tests.support.toys import Toy, Toys


def trace(*row: int, arm: int = 0) -> str:
    return json.dumps([arm, *row])


# At the optimum of the toy, so that nothing is faster; and far from it.
FAST, SLOW = trace(12, 12, 12, 12), trace(1, 64, 1, 64)


def test_a_run_measures_as_many_as_asked_for_and_reports_the_best(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    seen: list[Progress] = []
    report = tuned(database, 20, runner, seen)
    assert (report.records, report.measured, len(runner.traces)) == (20, 20, 20)
    assert report.best is not None
    assert report.best.seconds == min(p.best_s for p in seen if p.best_s is not None)
    assert [p.trials for p in seen] == list(range(1, 21))
    assert seen[-1].left_s == 0
    assert seen[0].left_s is None
    assert seen[1].left_s is not None
    assert seen[1].left_s > 0
    assert not runner.closed
    assert runner.raced_against[0] is None
    assert runner.raced_against[-1] is not None
    assert report.phases["build"] == pytest.approx(0.5 * (20 + len(runner.again)))
    assert report.phases["run"] == pytest.approx(0.25 * (20 + len(runner.again)))
    assert report.phases["model"] > 0


def test_the_same_call_again_opens_nothing(database: Database) -> None:
    tuned(database, 20, ToyRunner(ToySpace()))
    task = ToyTask(ToySpace())
    with TuningSession([task], db=database, runner="local", strategy=strategy, progress=False, guess=False) as session:
        assert session.step(trials=20) is None
        (report,) = session.run(trials=20)
    assert (report.records, report.measured, task.made) == (20, 0, 0)
    assert report.best is not None


def test_a_database_that_may_not_be_written_is_reported_before_anything_is_made_or_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/kept.db"
    with open_database(url) as database:
        tuned(database, 20, ToyRunner(ToySpace()))
    monkeypatch.setattr(sqlite, "_may_write", lambda file: not file.exists())
    task = ToyTask(ToySpace())
    monkeypatch.setattr(OpenedOnce, "open_runner", lambda _: pytest.fail("workers are started"))
    with TuningSession([task], db=url, strategy=strategy, progress=False, guess=False) as session:
        (report,) = session.run(trials=20)  # which adds nothing
        assert report.records == 20
    with (
        pytest.raises(DatabaseError, match="readonly database"),
        TuningSession([task], db=url, strategy=strategy, progress=False, guess=False) as session,
    ):
        session.run(trials=40)
    assert task.made == 0


def test_a_run_in_two_parts_measures_what_one_run_does(tmp_path: Path) -> None:
    one = ToyRunner(ToySpace(), fail=True)
    with open_database(f"sqlite:///{tmp_path}/one.db") as whole:
        tuned(whole, 40, one)
    for first in (16, 27):
        two, three = (ToyRunner(ToySpace(), fail=True) for _ in range(2))
        for runner, trials in ((two, first), (three, 40)):
            with open_database(f"sqlite:///{tmp_path}/{first}.db") as database:
                report = tuned(database, trials, runner)
        assert (len(two.traces), report.measured) == (first, 40 - first)
        assert one.traces == two.traces + three.traces


def test_interrupting_keeps_what_has_finished_and_returns_the_best(database: Database) -> None:
    runner = ToyRunner(ToySpace(), stop_at=19)
    report = tuned(database, 40, runner)
    assert report.interrupted
    assert "interrupted: the same call goes on from here" in str(report)
    assert not runner.closed
    assert report.records == 19
    assert report.best is not None
    again = tuned(database, 40, ToyRunner(ToySpace()))
    assert (again.records, again.measured, again.interrupted) == (40, 21, False)


def test_failures_are_counted_by_reason_and_are_trials(database: Database) -> None:
    seen: list[Progress] = []
    report = tuned(database, 40, ToyRunner(ToySpace(), fail=True), seen)
    assert report.records == 40
    assert report.failures["crash SIGSEGV"] > 0
    assert seen[-1].failed == report.failures["crash SIGSEGV"]
    assert report.best is not None


def test_candidates_that_are_illegal_after_all_are_counted_and_skipped(database: Database) -> None:
    space = ToySpace()
    space.illegal = set(range(1, 40))
    runner = ToyRunner(space)
    report = tuned(database, 24, runner)
    assert report.records == 24
    assert report.rejected["split: the factor is unlucky"] > 0
    assert all(json.loads(trace)[1] >= 40 for trace in runner.traces)


def test_a_space_that_is_used_up_ends_the_run(database: Database) -> None:
    space = ToySpace()
    space.arms = Toys([Toy(width=2, most=3)])
    report = tuned(database, 40, ToyRunner(space))
    assert report.exhausted
    assert 0 < report.records <= 5


def test_records_that_the_space_no_longer_holds_count_and_compete_but_teach_nothing(database: Database) -> None:
    space = ToySpace()
    tuned(database, 8, ToyRunner(space))
    space.arms = Toys(space.arms[:1])
    report = tuned(database, 32, ToyRunner(space))
    assert report.records == 32


def test_a_defect_is_not_a_failed_candidate(database: Database) -> None:
    class Broken(ToyRunner):
        def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
            raise RuntimeError("a defect")

    runner = Broken(ToySpace())
    with pytest.raises(RuntimeError, match="a defect"):
        tuned(database, 8, runner)
    assert not runner.closed


# --- the guess


def test_the_guess_is_the_first_trial_and_stays_unless_something_is_faster(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    report = tuned(database, 20, runner, guesses=Guesses(FAST, FAST))
    assert runner.traces[0] == FAST
    assert report.records == len(runner.traces) == 20
    assert report.is_guess
    assert report.best is not None
    assert (report.best.trace, report.best.role, report.best.trial) == (FAST, Role.DEFAULT, 0)
    assert "it is the guess" in str(report)
    assert best_of(database.records(key().task)) == report.best


def test_something_faster_than_the_guess_is_taken(database: Database) -> None:
    report = tuned(database, 20, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW))
    assert report.best is not None
    assert report.best.trace != SLOW
    assert not report.is_guess
    assert report.guess is not None
    assert report.guess.trace == SLOW
    assert best_of(database.records(key().task)) == report.best


class DisturbedGuess(ToyRunner):
    """While the guess is first measured something else runs: it seems slow, and loses the race if it is in one."""

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        found = super().measured(candidate, code, plan)
        if candidate.trace != FAST or self.again:
            return found
        raced = plan.race_ratio < 100
        return replace(found, visits=tuple((10 * times[0],) for times in found.visits), raced=raced)


def test_a_guess_that_was_disturbed_is_timed_in_turns_all_the_same(database: Database) -> None:
    report = tuned(database, 20, DisturbedGuess(ToySpace()), guesses=Guesses(FAST, FAST))
    assert report.is_guess


# --- expert traces


# One that is of the space, and one that is not.
RIVAL, FOREIGN = trace(3, 3, 3, 3), trace(1, 2, arm=7)
EXPERTS = Guesses(SLOW, SLOW, (RIVAL, FOREIGN))


def with_foreign() -> ToyRunner:
    runner = ToyRunner(ToySpace())
    runner.fixed[FOREIGN] = 1e-9
    return runner


def test_expert_traces_are_measured_after_the_guess_and_before_the_strategys_proposals(database: Database) -> None:
    runner = with_foreign()
    report = tuned(database, 16, runner, guesses=EXPERTS)
    assert runner.traces[:3] == [SLOW, RIVAL, FOREIGN]
    roles = [record.role for record in database.records(key().task)]
    assert roles == [Role.DEFAULT, Role.EXPERT, Role.EXPERT, *[Role.CANDIDATE] * 13]
    assert str(report).startswith("16 records (the guess, 2 expert traces, 13 candidates), 16 of them new")
    assert (report.best is not None, report.is_guess) == (True, False)
    assert report.best is not None
    assert report.best.trace == FOREIGN, "what is not of the space competes as well"


def test_a_run_in_two_parts_measures_each_expert_trace_once(tmp_path: Path) -> None:
    whole = with_foreign()
    with open_database(f"sqlite:///{tmp_path}/one.db") as one:
        tuned(one, 20, whole, guesses=EXPERTS)
    for first in (1, 2, 5, 8, 11):
        runners = [with_foreign() for _ in range(2)]
        for runner, trials in zip(runners, (first, 20), strict=True):
            with open_database(f"sqlite:///{tmp_path}/{first}.db") as two:
                tuned(two, trials, runner, guesses=EXPERTS)
        assert whole.traces == runners[0].traces + runners[1].traces, first


def test_an_expert_trace_of_known_code_is_no_trial(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    runner.codes = lambda text: SLOW if text == RIVAL else text
    report = tuned(database, 8, runner, guesses=Guesses(SLOW, SLOW, (RIVAL,)))
    assert (report.records, report.duplicates) == (8, 1)
    assert RIVAL not in runner.traces


def test_another_guess_of_the_same_code_is_not_waited_for(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    runner.codes = lambda text: SLOW if text == RIVAL else text
    tuned(database, 8, runner, guesses=Guesses(SLOW, SLOW))
    report = tuned(database, 12, runner, guesses=Guesses(RIVAL, RIVAL))
    assert (report.records, report.measured) == (12, 4)
    assert RIVAL not in runner.traces


@pytest.mark.parametrize(("experts", "asked"), [(2, 7), (5, 5), (10, 5), (14, 4)])
def test_the_strategy_is_asked_for_some_however_many_experts_there_are(
    database: Database, experts: int, asked: int
) -> None:
    guesses = Guesses(SLOW, SLOW, tuple(trace(n, 1, 1, 1) for n in range(2, 2 + experts)))
    with toy_session(database, runner := ToyRunner(ToySpace()), guesses=guesses) as session:
        session.step(trials=32)
    assert len(runner.traces) == 1 + experts + asked


def test_one_trial_is_the_guess(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    report = tuned(database, 1, runner, guesses=Guesses(SLOW, SLOW))
    assert runner.traces == [SLOW]
    assert report.is_guess


# A guess that is not of the space, and teaches the search nothing.
ELSEWHERE = trace(0, 0, arm=9)


def beside(trials: int, runner: ToyRunner) -> float:
    """Let the guess take a tenth longer than the best that so many trials find, and say how long that is."""
    probe = ToyRunner(ToySpace())
    probe.fixed = {ELSEWHERE: 1.0}
    with open_database("sqlite:///:memory:") as database:
        best = tuned(database, trials, probe, guesses=Guesses(ELSEWHERE, ELSEWHERE)).best
    assert best is not None
    assert best.seconds is not None
    runner.fixed = {ELSEWHERE: 1.1 * best.seconds}
    return runner.fixed[ELSEWHERE]


def test_what_only_looked_faster_in_the_search_is_not_taken(database: Database) -> None:
    """In turns with the guess, everything else takes twice as long as it did alone."""

    class Lucky(ToyRunner):
        def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
            found = super().measured(candidate, code, plan)
            alone = plan == TimingPlan() or candidate.trace == ELSEWHERE
            return found if alone else replace(found, visits=tuple((2 * t[0],) for t in found.visits))

    runner = Lucky(ToySpace())
    seconds = beside(30, runner)
    report = tuned(database, 30, runner, guesses=Guesses(ELSEWHERE, ELSEWHERE))
    learned = [r.search_seconds for r in database.records(key().task) if r.search_seconds is not None]
    assert min(learned) < seconds
    assert report.is_guess
    assert tuned(database, 30, ToyRunner(ToySpace()), guesses=Guesses(ELSEWHERE, ELSEWHERE)).is_guess
    assert best_of(database.records(key().task)) == report.guess


def test_where_another_space_is_searched_the_default_guess_is_measured_as_well(database: Database) -> None:
    """It is no trial and not what is returned; but whoever finds the database would have got it."""
    runner = ToyRunner(ToySpace())
    own = trace(2, 2, 2, 2, arm=1)
    report = tuned(database, 3, runner, guesses=Guesses(own, FAST))
    assert set(runner.traces[:2]) == {own, FAST}
    assert (report.records, len(runner.traces)) == (3, 4)
    assert report.best is not None
    assert report.best.trace != FAST
    best = best_of(database.records(key().task))
    assert best is not None
    assert (best.trace, best.role, best.trial) == (FAST, Role.DEFAULT, NO_TRIAL)
    again = tuned(database, 3, runner, guesses=Guesses(own, FAST))
    assert (again.measured, again.best) == (0, report.best)


def test_a_guess_that_fails_is_a_trial_and_others_win(database: Database) -> None:
    bad = trace(3, 3, 3, 3)
    report = tuned(database, 20, ToyRunner(ToySpace(), fail=True), guesses=Guesses(bad, bad))
    assert report.failures["crash SIGSEGV"] >= 1
    assert report.best is not None
    assert report.best.trace != bad
    assert report.guess is not None
    assert report.guess.seconds is None


def test_a_search_in_which_all_else_fails_gives_the_guess(database: Database) -> None:
    class Failing(ToyRunner):
        def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
            found = super().measured(candidate, code, plan)
            if candidate.trace == FAST:
                return found
            return replace(found, visits=(), failure=Failure("crash SIGSEGV"))

    report = tuned(database, 20, Failing(ToySpace()), guesses=Guesses(FAST, FAST))
    assert report.is_guess
    assert report.failures == {"crash SIGSEGV": 19}


def test_a_search_that_was_killed_is_no_reason_to_leave_the_guess(database: Database) -> None:
    guesses = Guesses(ELSEWHERE, ELSEWHERE)
    runner, again = ToyRunner(ToySpace(), stop_at=40), ToyRunner(ToySpace())
    beside(40, runner)
    beside(40, again)
    assert tuned(database, 60, runner, guesses=guesses).interrupted
    best = best_of(database.records(key().task))
    assert best is not None
    assert best.trace == ELSEWHERE, "no paired test was made, and nothing is clearly faster"
    report = tuned(database, 40, again, guesses=guesses)
    assert report.measured == 0
    assert report.best is not None
    assert report.best.trace != ELSEWHERE, "the test is made up for"


def test_records_without_a_guess_are_not_enough(database: Database) -> None:
    """Such as imported ones, and those of a run that was killed before its guess was measured."""
    tuned(database, 20, ToyRunner(ToySpace()))
    runner = ToyRunner(ToySpace())
    report = tuned(database, 10, runner, guesses=Guesses(FAST, FAST))
    assert runner.traces == [FAST]
    assert report.is_guess


def test_a_guess_of_the_space_teaches_the_search(database: Database) -> None:
    seen: list[Observation] = []

    class Listening(Evolution):
        def observe(self, results: Sequence[Observation]) -> None:
            seen.extend(results)
            super().observe(results)

    def listening(given: StrategyInputs) -> Strategy:
        return Listening(given.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1), given.phases)

    tuned(database, 16, ToyRunner(ToySpace()), guesses=Guesses(FAST, FAST), make=listening)
    assert seen[0].candidate == Candidate(0, (12, 12, 12, 12))
    assert seen[0].seconds == ToySpace().arms[0].seconds((12, 12, 12, 12))


# --- other spaces, other versions


class Listening(Evolution):
    """Keeps what it was told."""

    def __init__(self, given: StrategyInputs) -> None:
        super().__init__(given.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1), given.phases)
        self.told: list[Observation] = []

    def observe(self, results: Sequence[Observation]) -> None:
        self.told.extend(results)
        super().observe(results)


def test_records_of_another_space_teach_and_are_neither_trials_nor_measured_again(database: Database) -> None:
    first = ToyRunner(ToySpace())
    tuned(database, 20, first, guesses=Guesses(SLOW, SLOW), fingerprint="another")
    made: list[Listening] = []

    def listening(given: StrategyInputs) -> Strategy:
        made.append(Listening(given))
        return made[-1]

    second = ToyRunner(ToySpace())
    report = tuned(database, 20, second, guesses=Guesses(SLOW, SLOW), make=listening)
    assert (report.records, report.measured) == (20, 20)
    assert set(first.traces) & set(second.traces) == {SLOW}, "the guess is measured in each space"
    taught = {c.row for c in (o.candidate for o in made[0].told[:20])}
    assert taught == {tuple(json.loads(t)[1:]) for t in first.traces}
    again = tuned(database, 20, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW))
    assert (again.measured, again.best) == (0, report.best)
    assert tuned(database, 20, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW), fingerprint="another").measured == 0


def test_the_best_of_another_space_wins_where_this_one_holds_it_also_when_it_is_read_again(database: Database) -> None:
    tuned(database, 3, ToyRunner(ToySpace()), guesses=Guesses(FAST, FAST), fingerprint="another")
    report = tuned(database, 6, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW))
    assert report.best is not None
    assert report.best.trace == FAST
    again = tuned(database, 6, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW))
    assert (again.measured, again.best) == (0, report.best)


def test_a_space_that_does_not_hold_it_returns_its_own(database: Database) -> None:
    tuned(database, 3, ToyRunner(ToySpace()), guesses=Guesses(FAST, FAST), fingerprint="another")
    space = ToySpace()
    space.arms = Toys([Toy(flavour=2)])
    space.locate_all = lambda outlines, text_of: [None] * len(outlines)  # type: ignore[method-assign]
    report = tuned(database, 6, ToyRunner(space), guesses=Guesses(SLOW, SLOW))
    assert report.best is not None
    assert report.best.trace != FAST
    best = best_record(database.summaries(key().task), lambda numbers: database.load(key().task, numbers))
    assert best is not None
    assert best.trace == FAST


def test_a_search_that_was_taught_goes_on_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    guesses = Guesses(SLOW, FAST)
    with open_database(f"sqlite:///{tmp_path}/taught.db") as database:
        tuned(database, 20, ToyRunner(ToySpace(), fail=True), guesses=guesses, fingerprint="another")
    measured: list[list[str]] = []
    for parts in ((40,), (16, 40), (30, 40)):
        runner = ToyRunner(ToySpace(), fail=True)
        with open_database(f"sqlite:///{tmp_path}/{parts[0]}.db") as database:
            with open_database(f"sqlite:///{tmp_path}/taught.db") as taught:
                database.add_all(taught.records(key().task))
            for trials in parts:
                tuned(database, trials, runner, guesses=guesses)
        measured.append(runner.traces)
    assert measured[0] == measured[1] == measured[2]


def with_version(database: Database, version: str) -> None:
    """Have all that is recorded made with another version of the code."""
    records = database.records(key().task)
    database.remove(records)
    database.add_all([replace(record, code_version=version) for record in records])


def test_what_was_fastest_with_another_version_is_timed_again_first_and_counts_then(database: Database) -> None:
    before = ToyRunner(ToySpace())
    tuned(database, 40, before, guesses=Guesses(SLOW, SLOW))
    with_version(database, "metasched 0")
    fastest = sorted((r for r in database.records(key().task) if r.settled), key=lambda r: r.seconds or 0.0)
    runner = ToyRunner(ToySpace())
    report = tuned(database, 16, runner, guesses=Guesses(SLOW, SLOW))
    assert (report.records, report.measured) == (16, 16)
    assert runner.traces[: 1 + SEEDS] == [SLOW, *(r.trace for r in fastest[:SEEDS])]
    assert report.best is not None
    assert (report.best.trace, report.best.is_current) == (fastest[0].trace, True)
    assert tuned(database, 16, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW)).measured == 0


def test_a_killed_first_batch_of_such_a_search_is_made_up_for(database: Database) -> None:
    tuned(database, 40, ToyRunner(ToySpace()), guesses=Guesses(SLOW, SLOW))
    with_version(database, "metasched 0")
    runners = [ToyRunner(ToySpace(), stop_at=5), ToyRunner(ToySpace())]
    assert tuned(database, 30, runners[0], guesses=Guesses(SLOW, SLOW)).interrupted
    tuned(database, 30, runners[1], guesses=Guesses(SLOW, SLOW))
    both = runners[0].traces + runners[1].traces
    assert len(set(both)) == len(both) == 30


def test_no_batch_asks_for_whole_records_but_for_those_that_are_timed_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hundred thousand records, a look at each of them in every batch is what takes the time."""
    loaded: list[int] = []
    load = type(database).load

    def counting(self: Database, task: TaskKey, numbers: Iterable[int]) -> dict[int, Record]:
        wanted = list(numbers)
        loaded.extend(wanted)
        return load(self, task, wanted)

    def refuse(self: Database, task: TaskKey) -> list[Record]:
        raise AssertionError("all records were read")

    monkeypatch.setattr(type(database), "load", counting)
    monkeypatch.setattr(type(database), "records", refuse)
    with toy_session(database, ToyRunner(ToySpace())) as session:
        for _ in range(6):
            session.step(trials=200)
        assert len(loaded) <= 1 + REPEATS
