from __future__ import annotations

from collections.abc import Sequence

import pytest

from metasched.measure.timing import Samples, TimingPlan, take_samples

PLAN = TimingPlan(sample_s=1e-3, repeats=8, min_repeats=3, budget_s=0.02)


class FakeKernel:
    """Takes `per_call` seconds a call, and `noise[n]` times that in its n-th run, then 1."""

    def __init__(self, per_call: float, noise: Sequence[float] = ()) -> None:
        self.per_call = per_call
        self.noise = list(noise)
        self.runs: list[int] = []

    def timed(self, best_s: float | None = None) -> Samples:
        """As the runner does it: two calls that are checked, then the samples."""
        first = [self(1), self(1)]
        self.runs.clear()
        return take_samples(self, PLAN, first, best_s)

    def __call__(self, calls: int) -> float:
        factor = self.noise.pop(0) if self.noise else 1.0
        self.runs.append(calls)
        return calls * self.per_call * factor


def test_a_sample_of_a_fast_kernel_is_many_calls() -> None:
    kernel = FakeKernel(2e-6)
    samples = kernel.timed()
    assert samples.times == pytest.approx([2e-6] * 8)
    assert not samples.raced
    assert all(calls * 2e-6 >= PLAN.sample_s * 0.99 for calls in kernel.runs[-8:])


def test_a_slow_kernel_is_called_once_a_sample_and_stops_at_its_budget() -> None:
    kernel = FakeKernel(8e-3)
    samples = kernel.timed()
    assert len(samples.times) == 3
    assert set(kernel.runs) == {1}
    assert not samples.raced


def test_the_budget_never_takes_the_least_number_of_samples() -> None:
    assert len(FakeKernel(1.0).timed().times) == PLAN.min_repeats


def test_a_hopeless_candidate_is_not_called_again() -> None:
    kernel = FakeKernel(0.1)
    samples = kernel.timed(best_s=0.01)
    assert samples.raced
    assert samples.times == (0.1,)
    assert kernel.runs == []


def test_a_single_short_call_condemns_nobody() -> None:
    samples = FakeKernel(1e-6, noise=[2e3, 1e3]).timed(best_s=1e-6)
    assert not samples.raced
    assert samples.median == pytest.approx(1e-6)


def test_one_interruption_does_not_condemn_a_fast_candidate() -> None:
    samples = FakeKernel(1e-3, noise=[50.0]).timed(best_s=1e-3)
    assert not samples.raced
    assert samples.median == pytest.approx(1e-3)


def test_a_clearly_slower_candidate_is_dropped_after_its_first_samples() -> None:
    samples = FakeKernel(1.5e-3).timed(best_s=1e-3)
    assert samples.raced
    assert len(samples.times) == PLAN.race_after


@pytest.mark.parametrize("per_call", [0.5e-3, 1e-3, 1.2e-3])
def test_a_contender_gets_every_sample(per_call: float) -> None:
    samples = FakeKernel(per_call).timed(best_s=1e-3)
    assert not samples.raced
    assert len(samples.times) == PLAN.repeats


def test_times_are_positive_even_where_the_clock_stands_still() -> None:
    samples = FakeKernel(0.0).timed()
    assert min(samples.times) > 0


@pytest.mark.parametrize(
    "wrong", [{"sample_s": 0.0}, {"min_repeats": 0}, {"min_repeats": 9}, {"race_ratio": 1.0}, {"race_after": 0}]
)
def test_plans_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    values = {"sample_s": 1e-3, "repeats": 8, "min_repeats": 3, "budget_s": 0.02} | wrong
    with pytest.raises(ValueError, match=r"repeats|durations"):
        TimingPlan(**values)  # type: ignore[arg-type]
