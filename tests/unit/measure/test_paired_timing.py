from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.checking.inputs import Inputs
from metasched.measure.comparison import Comparison
from metasched.measure.paired_timing import compare
from metasched.measure.records import Failure, Lowered, MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan, is_clearly_slower

PROGRAM = parse_program("program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n")


class Runner:
    """Candidates take the time that their text says, in every visit; what was asked for is kept in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        raise NotImplementedError

    def submit(
        self,
        program: Program,
        trace: str,
        target: str,
        best_s: float | None = None,
        *,
        lowered: Lowered | None = None,
        plan: TimingPlan | None = None,
    ) -> Future[Measurement]:
        assert best_s is None, "nothing races"
        assert plan is not None
        assert not is_clearly_slower([(1.0,)] * 2, 1e-6, plan.race_ratio), "nothing races"
        self.asked.append(trace)
        future: Future[Measurement] = Future()
        failed = Failure("crash SIGSEGV") if trace == "crash" else None
        visits = () if failed else ((float(trace), 99.0, float(trace)),) * plan.visits
        future.set_result(Measurement(MeasureCandidate("", (), trace, target), visits, False, failed, ()))
        return future

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


def test_a_turn_of_both_is_a_pair() -> None:
    runner = Runner()
    found = compare(runner, PROGRAM, "3", "2", "cpu", pairs=3)
    assert runner.asked == ["3", "2"], "each is built once"
    assert found.pairs == ((3.0, 2.0),) * 3
    assert found.gain == pytest.approx(1.5)
    assert found.interval == pytest.approx((1.5, 1.5))
    assert found.medians == (3.0, 2.0)


def test_one_that_fails() -> None:
    with pytest.raises(MetaschedError, match="does not run again: crash SIGSEGV"):
        compare(Runner(), PROGRAM, "3", "crash", "cpu")


def test_the_interval_covers_the_gain_nearly_as_often_as_it_says() -> None:
    """Of a gain of 1.2 under noise of 10 %, most of 200 experiments' intervals hold it; few would at no coverage."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        first, second = np.exp(rng.normal(0, 0.1, (2, 12)))
        low, high = Comparison(tuple(zip(1.2 * first, second, strict=True))).interval
        held += low <= 1.2 <= high
    assert 175 <= held <= 199
