"""How often a kernel is called to know its time, and when to stop because it cannot win.

The clock is read around a loop of calls inside compiled code (see `metasched.measure.load`), so that Python is not
in the time. A sample is the mean of as many calls as last `sample_s`, so that the clock's own cost and
resolution are not in it either. Data stays where the previous call left it: caches are not flushed, as a kernel that
is called in a loop finds them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_CALL_S = 1e-9  # the least time that is believed of a call: below it, the clock did not tick


@dataclass(frozen=True)
class TimingPlan:
    """How a candidate is timed; every duration in seconds.

    Samples last about `sample_s`; `repeats` of them are taken, fewer (but `min_repeats` at least) when `budget_s` is
    spent. With a best time known, a candidate whose calls so far all took `hopeless` times as long, and longer than
    `long_call_s` (a single short call tells more of waking threads than of the kernel), is not called again, and
    one that is still `race_ratio` times slower in the best of `race_after` samples is dropped there.
    """

    sample_s: float = 2e-3
    repeats: int = 12
    min_repeats: int = 3
    budget_s: float = 0.06
    race_after: int = 2
    race_ratio: float = 1.3
    hopeless: float = 3.0
    long_call_s: float = 5e-3

    def __post_init__(self) -> None:
        if not (self.sample_s > 0 and self.budget_s > 0 and self.race_ratio > 1 and self.hopeless > 1):
            raise ValueError(f"durations are positive and ratios above 1: {self}")
        if not (1 <= self.min_repeats <= self.repeats and self.race_after >= 1):
            raise ValueError(f"1 <= min_repeats <= repeats and race_after >= 1: {self}")


@dataclass(frozen=True)
class Samples:
    """Seconds per call, one for each sample; `raced` says that more would have been taken of a faster kernel."""

    times: tuple[float, ...]
    raced: bool

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def take_samples(
    run: Callable[[int], float], plan: TimingPlan, first: Sequence[float], best_s: float | None = None
) -> Samples:
    """Time a kernel. `run(n)` calls it n times and returns the seconds that all of them took together.

    `first` are the seconds of single calls before this: those that were checked. They mapped its pages and started
    its threads, and where even the fastest of them is hopeless, it is the only sample.
    """
    single = max(min(first), _CALL_S)
    if best_s is not None and single > max(plan.hopeless * best_s, plan.long_call_s):
        return Samples((single,), raced=True)
    calls, spent = _calls_per_sample(run, single, plan.sample_s)
    times: list[float] = []
    while len(times) < plan.repeats and (len(times) < plan.min_repeats or spent < plan.budget_s):
        seconds = _timed(run, calls)
        spent += seconds
        times.append(seconds / calls)
        if best_s is not None and len(times) == plan.race_after and min(times) > plan.race_ratio * best_s:
            return Samples(tuple(times), raced=len(times) < plan.repeats)
    return Samples(tuple(times), raced=False)


def _timed(run: Callable[[int], float], calls: int) -> float:
    return max(run(calls), calls * _CALL_S)


def _calls_per_sample(run: Callable[[int], float], first: float, sample_s: float) -> tuple[int, float]:
    """The number of calls that last `sample_s`, and the seconds spent to find out.

    One call of a few microseconds tells little of what many take in a row, so the number is approached in steps.
    """
    calls, seconds, spent = 1, first, 0.0
    while seconds < sample_s / 2:
        calls = min(10 * calls, math.ceil(calls * sample_s / seconds))
        seconds = _timed(run, calls)
        spent += seconds
    return max(1, math.ceil(calls * sample_s / seconds)), spent
