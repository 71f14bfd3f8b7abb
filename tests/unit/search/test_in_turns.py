"""Two searches side by side: each is what it would be alone, and neither measures while the other does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from metasched.database.backends import open_database
from metasched.lang import parse_program
from metasched.measure.records import MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan
from metasched.search.paired_tuning import Side, tune_in_turns
from metasched.search.progress import Progress, ProgressCallback
from metasched.search.tune import Job, Tools, batch_size, tune

from .test_tune import TEXT, ToyRunner, ToySpace, strategy


class Logged(ToyRunner):
    """A toy runner that says who measures."""

    def __init__(self, name: str, log: list[str], stop_at: int | None = None) -> None:
        super().__init__(ToySpace(), stop_at)
        self.name = name
        self.log = log

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        self.log.append(self.name)
        return super().measured(candidate, code, plan)


@pytest.fixture
def side() -> Iterator[Callable[[ToyRunner, str, int], Side]]:
    with ExitStack() as stack:

        def make(runner: ToyRunner, name: str, trials: int) -> Side:
            database = stack.enter_context(open_database("sqlite:///:memory:"))
            tools = Tools(lambda: runner.space, lambda: runner, strategy)
            return Side(name, Job(parse_program(TEXT), "target x", 2, trials), database, tools)

        yield make


def test_batches_alternate_and_each_search_is_as_if_alone(side: Callable[[ToyRunner, str, int], Side]) -> None:
    log: list[str] = []
    runners = {name: Logged(name, log) for name in ("without", "with")}
    seen: dict[str, list[Progress]] = {"without": [], "with": []}

    def progress(name: str) -> ProgressCallback:
        return seen[name].append

    sides = tuple(side(runner, name, 28) for name, runner in runners.items())
    reports = tune_in_turns(sides, progress)
    first = batch_size(0)
    assert log[: 2 * first] == ["without"] * first + ["with"] * first
    assert [r.records for r in reports] == [28, 28]
    alone = side(ToyRunner(ToySpace()), "alone", 28)
    report = tune(alone.job, alone.database, alone.tools)
    assert report.best is not None
    assert [r.best.trace for r in reports if r.best is not None] == [report.best.trace] * 2
    assert all(r.closed for r in runners.values())
    assert [p.total for p in seen["with"]] == [28] * 28


def test_ctrl_c_ends_both(side: Callable[[ToyRunner, str, int], Side]) -> None:
    log: list[str] = []
    sides = (side(Logged("without", log, stop_at=4), "without", 40), side(Logged("with", log), "with", 40))
    without, other = tune_in_turns(sides)
    assert without.interrupted
    assert without.records == 4
    assert other.records == 0
    assert other.best is None
    assert "with" not in log
