"""Two sessions side by side: each is what it would be alone, and neither measures while the other does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from metasched.database.database_registry import open_database
from metasched.measure.records import MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan
from metasched.report.progress import Progress
from metasched.search.paired_tuning import tune_in_turns
from metasched.search.session import TuningSession
from metasched.search.task_search import batch_size
from tests.support.toy_search import ToyRunner, ToySpace, toy_session, tuned


class Logged(ToyRunner):
    """A toy runner that says who measures."""

    def __init__(self, name: str, log: list[str], stop_at: int | None = None) -> None:
        super().__init__(ToySpace(), stop_at)
        self.name = name
        self.log = log

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        self.log.append(self.name)
        return super().measured(candidate, code, plan)


Make = Callable[[ToyRunner, list[Progress]], TuningSession]


@pytest.fixture
def session() -> Iterator[Make]:
    with ExitStack() as stack:

        def make(runner: ToyRunner, seen: list[Progress]) -> TuningSession:
            database = stack.enter_context(open_database("sqlite:///:memory:"))
            return stack.enter_context(toy_session(database, runner, seen))

        yield make


def test_batches_alternate_and_each_search_is_as_if_alone(session: Make) -> None:
    log: list[str] = []
    runners = {name: Logged(name, log) for name in ("without", "with")}
    seen: dict[str, list[Progress]] = {"without": [], "with": []}
    reports = tune_in_turns([session(runner, seen[name]) for name, runner in runners.items()], 28)
    first = batch_size(0)
    assert log[: 2 * first] == ["without"] * first + ["with"] * first
    assert [report.records for (report,) in reports] == [28, 28]
    with open_database("sqlite:///:memory:") as database:
        alone = tuned(database, 28, ToyRunner(ToySpace()))
    assert alone.best is not None
    assert [r.best.trace for (r,) in reports if r.best is not None] == [alone.best.trace] * 2
    assert [p.total for p in seen["with"]] == [28] * 28


def test_ctrl_c_ends_both(session: Make) -> None:
    log: list[str] = []
    sessions = (session(Logged("without", log, stop_at=4), []), session(Logged("with", log), []))
    (without,), (other,) = tune_in_turns(sessions, 40)
    assert without.interrupted
    assert without.records == 4
    assert other.records == 0
    assert other.best is None
    assert "with" not in log
