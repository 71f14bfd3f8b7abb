"""Networks are tuned by one session over their tasks, and run what it finds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.database.database_registry import open_database
from metasched.errors import MetaschedError
from metasched.graph.code.choices import ScheduleOrigin
from metasched.graph.network import Network
from metasched.graph.tasks import tasks_of
from metasched.graph.tuning import settling
from metasched.graph.tuning.graphs import _row, inputs_of
from metasched.graph.tuning.networks import tune_networks
from metasched.graph.tuning.strip_turns import StripSettlement
from metasched.graph.tuning.view import NetworkProgress
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.records import Measurement
from metasched.measure.timing import Surroundings, TimingPlan
from metasched.search.report import TuningReport
from metasched.search.session import TuningSession
from tests.support.fake_runner import AllFaster, FakeRunner
from tests.support.onnx_models import model, node, random, value

X, W, V = random(32, 64), random(64, 64, seed=1), random(64, 32, seed=2)


class SlowGuesses(FakeRunner):
    """What is measured first of a program, its guess, takes longer than all else."""

    def __init__(self) -> None:
        super().__init__()
        self.guesses: dict[str, str] = {}

    def seconds_of(self, program: Program, trace: str) -> float:
        guess = self.guesses.setdefault(program.key, trace)
        return super().seconds_of(program, trace) * (3.0 if trace == guess else 1.0)


def network() -> ms.Network:
    """Two equal products under other names and a narrower one; a relu is too small to be tuned."""
    nodes = [
        node("MatMul", "X W", "P"),
        node("Tanh", "P", "Q"),
        node("MatMul", "Q W2", "R"),
        node("Tanh", "R", "S"),
        node("MatMul", "S V", "T"),
    ]
    return ms.load_onnx(model(nodes, [value("X", X)], ("T",), {"W": W, "W2": 2 * W, "V": V}))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/t.db"


def traces(net: ms.Network) -> dict[str, str]:
    return {key: str(choice.trace) for key, choice in net.choices.items()}


def tuned(net: ms.Network, url: str, trials: int, runner: FakeRunner | None = None, **more: object) -> object:
    return net.tune(trials, url, runner=runner or FakeRunner(), progress=False, **more)  # type: ignore[arg-type]


@pytest.fixture
def tuned_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the network's own call every kernel takes what the fake runner says of the tuned ones: less than before."""
    monkeypatch.setattr(settling, "_time_in_turns", lambda first, second, inputs: AllFaster())


class AllSlower(AllFaster):
    seconds = 1e-3, 2e-3

    def seconds_of_steps(self, numbers: list[int]) -> tuple[float, float]:
        return 1e-6 * len(numbers), 2e-6 * len(numbers)


@pytest.mark.usefixtures("tuned_is_faster")
def test_a_tuned_network_computes_the_same_with_the_best_kernels(url: str) -> None:
    net = network()
    expected = net(X)
    seen: list[NetworkProgress] = []
    report = net.tune(6, url, runner=FakeRunner(), progress=seen.append)
    assert (report.trials, report.measured) == (6, 6)
    assert report.after_s[0] <= report.before_s[0]
    assert [choice.origin is ScheduleOrigin.TUNED for choice in net.choices.values()] == [True] * len(net.choices)
    assert net.choices
    (settlement,) = report.settlements
    assert {task.key for task in settlement.tasks} <= set(net.choices)
    assert all(task.is_tuned for task in settlement.tasks)
    np.testing.assert_allclose(net(X), expected, rtol=1e-4, atol=1e-5)
    rows = seen[-1].table.rows
    assert max(rows, key=lambda row: row.weight).trials > 0, "what runs twice was first"
    assert {row.mark for row in rows} >= {"now"}
    assert seen[-1].trials == 6
    assert "6/6 trials" in seen[-1].line
    # Another process takes the records, and does not tune.
    again = network()
    again.use(url)
    assert traces(again) == traces(net)
    (best, *_) = [row for row in again.tasks(url).rows if row.trials]
    assert best.best_s is not None
    assert "share" in str(again.tasks(url))


def test_kernels_that_are_slower_in_the_network_are_not_used_now_nor_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_time_in_turns", lambda first, second, inputs: AllSlower())
    net = network()
    guessed = {step.task: step.schedule for step in net.compiled().steps}
    report = net.tune(6, url, runner=SlowGuesses(), strategy="random", progress=False)
    (settlement,) = report.settlements
    slower = {task.key for task in settlement.tasks}
    assert slower, "some kernel was tuned"
    assert not slower & set(net.choices)
    assert {step.task: step.schedule for step in net.compiled().steps} == guessed
    again = network().use(url)
    assert {step.task: step.schedule for step in again.compiled().steps} == guessed
    assert all(again.choices[key].detail.endswith(", the guess") for key in slower)


def test_what_a_network_runs_before_is_compiled_within_the_budget(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    run = TuningSession.run

    def watched(session: TuningSession, budget: float, **more: Any) -> tuple[TuningReport, ...]:
        given.append(budget)
        assert net.executable is not None
        return run(session, budget=1e-3, **more)

    monkeypatch.setattr(TuningSession, "run", watched)
    net = network()
    report = net.tune(None, url, budget=6000.0, runner=FakeRunner(), progress=False)
    assert 3000.0 < given[0] < 6000.0
    assert report.elapsed_s > 0


def test_of_a_budget_so_much_is_kept_as_turns_in_place_are_expected_to_take(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a small network is tuned for nearly all of it, and no network for less than half."""
    given: list[float] = []
    run = TuningSession.run

    def watched(session: TuningSession, budget: float, **more: Any) -> tuple[TuningReport, ...]:
        given.append(budget)
        return run(session, budget=1e-3, **more)

    monkeypatch.setattr(TuningSession, "run", watched)
    for kept in (0.0, 2000.0, 5000.0):
        monkeypatch.setattr(Network, "settling_s", lambda net, kept=kept: kept)
        network().tune(None, url, budget=6000.0, runner=FakeRunner(), progress=False)
    assert given == pytest.approx([6000.0, 4000.0, 3000.0], abs=900.0)


def test_strips_are_settled_first_and_within_the_budget(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    timed = StripSettlement(before_s=2.0, after_s=1.0)

    def settled(net: Network, db: str, most: int) -> StripSettlement:
        asked.append(most)
        assert net.executable is None, "before kernels are tuned"
        return timed

    monkeypatch.setattr(Network, "settle_strips", settled)
    report = network().tune(2, url, runner=FakeRunner(), strategy="random", progress=False)
    assert report.strips == (timed,)
    assert str(timed) in str(report)
    network().tune(None, url, budget=0.05, runner=FakeRunner(), strategy="random", progress=False)
    assert asked == [30, 0]
    with pytest.raises(MetaschedError, match=r"budget is -2.0"):
        network().tune(None, url, budget=-2.0, runner=FakeRunner(), progress=False)
    assert len(asked) == 2, "what is no number is refused before anything is timed"


def test_patience_ends_it(url: str) -> None:
    """Each task ends by itself: the same times again and again are no gain."""
    report = network().tune(None, url, patience=3, runner=FakeRunner(), strategy="random", progress=False)
    assert 0 < report.trials < 60
    assert all(one.out_of_patience for one in report.reports.values())


def test_what_was_interrupted_goes_on(url: str) -> None:
    net, runner = network(), FakeRunner(stop_at=4)
    report = net.tune(8, url, runner=runner, strategy="random", progress=False)
    assert report.interrupted
    assert 0 < report.trials < 8
    assert "interrupted: the same call goes on from here" in str(report)
    after = net.tune(8, url, runner=FakeRunner(), strategy="random", progress=False)
    assert (after.trials, after.interrupted) == (8, False)
    assert after.measured == 8 - report.trials
    assert net.tune(8, url, runner="local", strategy="random", progress=False).measured == 0, (
        "the same call again opens nothing"
    )


@pytest.mark.usefixtures("tuned_is_faster")
def test_two_networks_share_a_task(url: str) -> None:
    a, b = network(), network()
    report = tune_networks(
        [a, b], 4, db=url, runner=FakeRunner(), strategy="random", progress=False, objective="geomean"
    )
    assert len(report.tables) == 2
    assert traces(a) == traces(b) != {}
    assert report.trials == 4


class SlowWhereColdRunner(FakeRunner):
    """What is timed with cold weights takes ten times as long."""

    factor = 1.0

    def submit(self, *given: Any, plan: TimingPlan | None = None, **more: Any) -> Future[Measurement]:
        assert plan is not None
        self.factor = 10.0 if plan.surroundings == Surroundings.LAST_CACHE.value else 1.0
        return super().submit(*given, plan=plan, **more)

    def seconds_of(self, program: Program, trace: str) -> float:
        return self.factor * super().seconds_of(program, trace)


def test_each_network_has_the_times_of_its_own_tasks(url: str) -> None:
    """A network that fits in a cache and one that does not have the same programs, and other tasks."""
    small, large = network(), network()
    large.target = ms.Target.parse(str(large.target).replace(f"l2={large.target.l2} ", "l2=4096 "))
    report = tune_networks(
        [small, large],
        32,
        db=url,
        runner=SlowWhereColdRunner(),
        strategy="random",
        scheduler="round_robin",
        progress=False,
    )
    assert len(report.reports) == 4
    rows, others = (table.rows for table in report.tables)
    for row, other in zip(rows, others, strict=True):
        assert (row.best_s is None) is (other.best_s is None)
        assert row.best_s is None or other.best_s is None or row.best_s < 3e-5 < other.best_s
    assert 0 < report.after_s[0] < 1e-4 < report.after_s[1]


def test_networks_take_the_options_that_one_takes() -> None:
    of_several = dict(inspect.signature(tune_networks).parameters)
    assert of_several.pop("networks").kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    of_one = dict(inspect.signature(ms.Network.tune).parameters)
    del of_one["self"]
    assert [*of_several.values()] == [*of_one.values()]


def test_a_large_network_is_timed_with_cold_weights(url: str) -> None:
    net = network()
    small = ms.Target.parse(str(net.target).replace(f"l2={net.target.l2} ", "l2=4096 "))
    net.target = small
    runner = FakeRunner()
    net.tune(2, url, runner=runner, strategy="random", progress=False)
    assert runner.constants == {Surroundings.LAST_CACHE.value}
    with open_database(url) as database:
        searched = {stats.task.surroundings for stats in database.stats().tasks} - {Surroundings.IN_PLACE.value}
        assert searched == {Surroundings.LAST_CACHE.value}


def small_network() -> ms.Network:
    return ms.load_onnx(model([node("Relu", "X", "Y")], [value("X", X)], outputs=("Y",)))


def test_a_network_of_small_kernels_runs_as_it_is_written(url: str) -> None:
    tiny = small_network()
    report = tiny.tune(2, url, progress=False)
    assert (report.trials, report.measured, report.reports) == (0, 0, {})
    assert str(report.tables[0]) == str(tiny.tasks())
    assert "no kernel is large enough to be tuned\n" in str(report)
    np.testing.assert_array_equal(tiny(X), np.maximum(X, 0))


WRONG: list[tuple[dict[str, object], str]] = [
    ({"scheduler": "greedy"}, "there is no task scheduler `greedy`"),
    ({"objective": "least"}, "there is no objective `least`"),
    ({"strategy": "lucky"}, "there is no strategy `lucky`"),
    ({"model": "crystal"}, "there is no model `crystal`"),
    ({"rules": "gpu"}, "no rule or preset `gpu`"),
    ({"allow": "errors"}, "`allow` is a set of names"),
    ({"knowledge": "none.knowledge"}, "none.knowledge"),
    ({"seed": -1}, "seed"),
    ({"runner": "moon"}, "there is no executor `moon`"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
@pytest.mark.parametrize("make", [network, small_network])
def test_wrong_settings_are_said(
    make: Callable[[], ms.Network], given: dict[str, object], message: str, url: str
) -> None:
    """Also where there is nothing that is large enough to be tuned."""
    with pytest.raises(MetaschedError, match=message):
        make().tune(2, url, progress=False, **given)  # type: ignore[arg-type]
    with pytest.raises(MetaschedError, match=r"budget is -2.0; it is how many seconds"):
        network().tune(None, url, budget=-2.0, runner=FakeRunner(), progress=False)
    with pytest.raises(MetaschedError, match="there is no objective `best`"):
        tuned(network(), url, 2, objective="best")


@pytest.mark.parametrize(("function", "positive"), [("sqrt", True), ("log", True), ("tanh", False)])
def test_functions_without_values_for_negative_numbers_get_positive_data(function: str, positive: bool) -> None:
    program = parse_program(f"program p(A: f32[8], I: i32[8]) -> B: f32[8]:\n    B[i] = {function}(A[i]) + f32(I[i])\n")
    assert inputs_of(program) == ({"A": (0.25, 1.25)} if positive else None)


def test_what_was_not_tuned_is_said_in_its_row() -> None:
    task, *_ = tasks_of(network().graph)
    assert _row(task, None).mark == "too small to tune"
