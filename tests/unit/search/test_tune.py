"""The tuning loop: nothing is measured twice, an interrupted run goes on as if it had not been."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from metasched.cost.model import CostModel
from metasched.database.base import Database, open_database
from metasched.errors import ScheduleError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.records import Candidate as Measured
from metasched.measure.records import Failure, Measurement
from metasched.search.evolution import Evolution, EvolutionConfig
from metasched.search.phases import Phase, Phases
from metasched.search.progress import Progress
from metasched.search.space_protocol import Candidate, SearchSpace, Strategy
from metasched.search.tune import Job, Tools, TuningReport, batch_size, batch_start, tune

from .conftest import Toy

TEXT = "program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n"


class ToySpace:
    def __init__(self) -> None:
        self.arms = [Toy(), Toy(flavour=1)]
        self.illegal: set[int] = set()

    def trace(self, candidate: Candidate) -> str:
        if candidate.row[0] in self.illegal:
            raise ScheduleError("split", "the factor is unlucky")
        return json.dumps([candidate.arm, *candidate.row])

    def locate(self, trace: str) -> Candidate | None:
        arm, *row = json.loads(trace)
        return Candidate(arm, tuple(row)) if arm < len(self.arms) else None


class ToyRunner:
    """Measures at once. `stop_at`: the measurement at which Ctrl-C is pressed."""

    def __init__(self, space: ToySpace, stop_at: int | None = None, fail: bool = False) -> None:
        self.space = space
        self.stop_at = stop_at
        self.fail = fail
        self.traces: list[str] = []
        self.raced_against: list[float | None] = []
        self.closed = False

    def submit(self, program: Program, trace: str, target: str, best_s: float | None = None) -> Future[Measurement]:
        future: Future[Measurement] = Future()
        if len(self.traces) == self.stop_at:
            future.set_exception(KeyboardInterrupt())
            return future
        self.traces.append(trace)
        self.raced_against.append(best_s)
        arm, *row = json.loads(trace)
        failure = Failure("crash SIGSEGV") if self.fail and row[1] % 3 == 0 else None
        times = () if failure else (self.space.arms[arm].seconds(tuple(row)),)
        candidate = Measured(str(program), program.params, trace, target)
        future.set_result(Measurement(candidate, times, False, failure, (("build", 0.5), ("run", 0.25))))
        return future

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(f"sqlite:///{tmp_path}/t.db") as found:
        yield found


def strategy(space: SearchSpace, phases: Phases) -> Strategy:
    return Evolution(space.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1), phases)


def tuned(database: Database, trials: int, runner: ToyRunner, seen: list[Progress] | None = None) -> TuningReport:
    job = Job(parse_program(TEXT), "target x", 2, trials)
    tools = Tools(lambda: runner.space, lambda: runner, strategy)
    return tune(job, database, tools, None if seen is None else seen.append)


def test_a_run_measures_as_many_as_asked_for_and_reports_the_best(database: Database) -> None:
    runner, seen = ToyRunner(ToySpace()), []
    report = tuned(database, 20, runner, seen)
    assert (report.records, report.measured, len(runner.traces)) == (20, 20, 20)
    assert report.best is not None
    assert report.best.seconds == min(p.best_s for p in seen if p.best_s is not None)
    assert [p.trials for p in seen] == list(range(1, 21))
    assert seen[-1].left_s == 0
    assert seen[0].left_s is None
    assert seen[1].left_s is not None
    assert seen[1].left_s > 0
    assert runner.closed
    assert runner.raced_against[0] is None
    assert runner.raced_against[-1] is not None
    assert report.phases["build"] == pytest.approx(10.0)
    assert report.phases["run"] == pytest.approx(5.0)
    assert report.phases["model"] > 0


def test_the_same_call_again_opens_nothing(database: Database) -> None:
    tuned(database, 20, ToyRunner(ToySpace()))

    def refuse() -> ToyRunner:
        raise AssertionError("opened")

    job = Job(parse_program(TEXT), "target x", 2, 20)
    report = tune(job, database, Tools(refuse, refuse, strategy))  # type: ignore[arg-type]
    assert (report.records, report.measured) == (20, 0)
    assert report.best is not None


@pytest.mark.parametrize("first", [1, 16, 19, 27])
def test_a_run_in_two_parts_measures_what_one_run_does(first: int, tmp_path: Path) -> None:
    space = ToySpace()
    one, two, three = ToyRunner(space, fail=True), ToyRunner(space, fail=True), ToyRunner(space, fail=True)
    with open_database(f"sqlite:///{tmp_path}/one.db") as database:
        tuned(database, 40, one)
    with open_database(f"sqlite:///{tmp_path}/two.db") as database:
        tuned(database, first, two)
    with open_database(f"sqlite:///{tmp_path}/two.db") as database:
        report = tuned(database, 40, three)
    assert len(two.traces) == first
    assert report.measured == 40 - first
    assert one.traces == two.traces + three.traces


def test_interrupting_keeps_what_has_finished_and_returns_the_best(database: Database) -> None:
    runner = ToyRunner(ToySpace(), stop_at=19)
    report = tuned(database, 40, runner)
    assert report.interrupted
    assert "interrupted: the same call goes on from here" in str(report)
    assert runner.closed
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
    space.arms = [Toy(width=2, most=3)]
    report = tuned(database, 40, ToyRunner(space))
    assert report.exhausted
    assert 0 < report.records <= 5


def test_records_of_another_space_count_and_compete_but_teach_nothing(database: Database) -> None:
    space = ToySpace()
    tuned(database, 8, ToyRunner(space))
    space.arms = space.arms[:1]
    report = tuned(database, 32, ToyRunner(space))
    assert report.records == 32


def test_a_defect_is_not_a_failed_candidate(database: Database) -> None:
    class Broken(ToyRunner):
        def submit(self, program: Program, trace: str, target: str, best_s: float | None = None) -> Future[Measurement]:
            future: Future[Measurement] = Future()
            future.set_exception(RuntimeError("a defect"))
            return future

    runner = Broken(ToySpace())
    with pytest.raises(RuntimeError, match="a defect"):
        tuned(database, 8, runner)
    assert runner.closed


def test_batches_start_where_they_started() -> None:
    starts = [0]
    while starts[-1] < 500:
        starts.append(starts[-1] + batch_size(starts[-1]))
    for records in range(400):
        assert batch_start(records) == max(s for s in starts if s <= records)


def test_nested_phases_are_counted_once() -> None:
    phases = Phases()
    with phases.timed(Phase.SCORING), phases.timed(Phase.MODEL):
        sum(range(200_000))
    seconds = phases.seconds()
    assert seconds["model"] > 10 * seconds["scoring"]
