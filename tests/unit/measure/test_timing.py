from __future__ import annotations

from collections.abc import Sequence

import pytest

from metasched.measure.timing import (
    Times,
    TimingPlan,
    is_clearly_slower,
    is_known_well,
    median_of,
    or_inf,
    take_samples,
)

PLAN = TimingPlan(sample_s=1e-3, samples=8, budget_s=0.02)


class FakeKernel:
    """Takes `per_call` seconds a call, and `noise[n]` times that in its n-th run, then 1."""

    def __init__(self, per_call: float, noise: Sequence[float] = ()) -> None:
        self.per_call = per_call
        self.noise = list(noise)
        self.runs: list[int] = []

    def timed(self, best_s: float | None = None) -> Times:
        """As the runner does it at first: two calls that are checked, then the samples."""
        first = [self(1), self(1)]
        self.runs.clear()
        return take_samples(self, PLAN, first, best_s)

    def __call__(self, calls: int) -> float:
        factor = self.noise.pop(0) if self.noise else 1.0
        self.runs.append(calls)
        return calls * self.per_call * factor


def test_a_sample_of_a_fast_kernel_is_many_calls() -> None:
    kernel = FakeKernel(2e-6)
    assert kernel.timed() == pytest.approx([2e-6] * 8)
    assert all(calls * 2e-6 >= PLAN.sample_s * 0.99 for calls in kernel.runs[-8:])


def test_a_slow_kernel_is_called_once_a_sample_and_stops_at_its_budget() -> None:
    kernel = FakeKernel(8e-3)
    assert len(kernel.timed()) == 3
    assert set(kernel.runs) == {1}


def test_a_call_longer_than_the_budget_is_a_sample_and_is_not_made_again() -> None:
    kernel = FakeKernel(1.0, noise=[3.0, 2.0])
    assert kernel.timed() == (2.0,)
    assert kernel.runs == []


def test_a_hopeless_candidate_is_not_called_again() -> None:
    kernel = FakeKernel(0.015)
    assert kernel.timed(best_s=0.004) == (0.015,)
    assert kernel.runs == []


def test_a_single_short_call_ends_no_visit() -> None:
    times = FakeKernel(1e-6, noise=[2e3, 1e3]).timed(best_s=1e-6)
    assert len(times) > 1
    assert median_of([times]) == pytest.approx(1e-6)


@pytest.mark.parametrize("per_call", [0.5e-3, 1e-3, 1.5e-3])
def test_a_visit_takes_every_sample_however_slow_the_first_ones_are(per_call: float) -> None:
    """What was slow for a moment is not known to be slow: adjacent samples decide nothing."""
    kernel = FakeKernel(per_call, noise=[1.0, 1.0, 2.0, 2.0])
    assert len(kernel.timed(best_s=1e-3)) == PLAN.samples


@pytest.mark.parametrize(
    ("visits", "slower"),
    [
        ([], False),
        ([(9.0,) * 8], False),
        ([(9.0,), (9.0,)], True),
        ([(9.0,), (9.0, 1.3, 9.0)], False),
        ([(1.31, 1.4), (1.5, 1.31)], True),
    ],
)
def test_a_race_takes_two_visits_and_all_their_samples(visits: list[Times], slower: bool) -> None:
    assert is_clearly_slower(visits, 1.0) == slower
    assert not is_clearly_slower(visits, None)


@pytest.mark.parametrize(
    ("visits", "known"),
    [
        ([(1.0,)], False),
        ([(1.0,), (1.005,)], True),
        ([(1.0,), (1.02,)], False),
        ([(1.2,), (1.22,)], True),
        ([(1.2,), (1.3,)], False),
    ],
)
def test_a_third_visit_is_made_where_two_do_not_agree(visits: list[Times], known: bool) -> None:
    assert is_known_well(visits, 1.0, PLAN) == known
    assert not is_known_well(visits, None, PLAN)
    assert not is_known_well(visits, 1.0, PLAN.without_race())


def test_a_visit_ends_with_two_samples_that_are_as_in_the_visit_before() -> None:
    kernel = FakeKernel(2e-3)
    assert len(take_samples(kernel, PLAN, [2e-3], None, 2e-3)) == 2
    assert len(take_samples(kernel, PLAN, [2e-3], None, 3e-3)) == PLAN.samples


def test_the_median_is_that_of_all_samples() -> None:
    assert median_of([(1.0, 2.0), (9.0, 3.0, 8.0)]) == 3.0


def test_times_are_positive_even_where_the_clock_stands_still() -> None:
    assert min(FakeKernel(0.0).timed()) > 0


@pytest.mark.parametrize(
    "wrong", [{"sample_s": 0.0}, {"samples": 0}, {"visits": 0}, {"race_ratio": 1.0}, {"apart_s": -1.0}]
)
def test_plans_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"visits|durations"):
        TimingPlan(**wrong)  # type: ignore[arg-type]


def test_a_failure_takes_longer_than_anything() -> None:
    assert (or_inf(2e-6), or_inf(None)) == (2e-6, float("inf"))
