"""How often a kernel is called to know its time, in visits apart from one another, and when those made are enough.

The clock is read around a loop of calls inside compiled code (see `metasched.measure.workers.load`), so that Python is
not in the time. A sample is the mean of as many calls as last `sample_s`, so that the clock's own cost and
resolution are not in it either. Data stays where the previous call left it: caches are not flushed, as a kernel that
is called in a loop finds them. In a network, other kernels run between two calls of one, and its weights are no longer
where it left them: `Surroundings` says so (see `metasched.measure.workers.rotation`).

What disturbs a machine (a neighbour, its own frequency) lasts longer than a few samples do. So samples are taken in
visits: candidates are timed one after another, and then all of them again, in the reverse order.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from metasched.support.data_classes import dataclass

_CALL_S = 1e-9  # the shortest plausible time of a call: below it, the clock did not tick

# Samples of one visit, in seconds per call.
Times = tuple[float, ...]
# Visits that a time needs: a single one depends on the moment as much as on the kernel.
LEAST_VISITS = 2
# A candidate so many times slower, in every sample of two visits, is clearly slower.
CLEARLY_SLOWER_RATIO = 1.3
# Samples, and medians of visits, that differ by no more than these shares agree.
_SAMPLES_AGREE = 0.015
_VISITS_AGREE = 0.01
# A candidate so many times slower than the best needs no third visit where two agree as well as this.
_BEHIND_RATIO = 1.1
_ABOUT_AGREE = 0.03
_NO_RACE = 1e9


class Surroundings(StrEnum):
    """What a kernel is timed in: alone, or as a network runs it.

    Alone it is called in a loop on arrays like a caller's, which begin 16 bytes after a cache line does, and on results
    as calls make them, on cache lines. In a network all its buffers begin at cache lines, and its constants are where
    the other kernels have left them.
    """

    ALONE = ""
    NETWORK = "network"  # constants are where the call before left them
    LAST_CACHE = "network, constants from the last cache"  # the second caches have held other data since
    MEMORY = "network, constants from memory"
    IN_PLACE = "network, in place"  # in the call of a network: what its records say is what that network runs
    # In the call of a network, reductions that it may join: as one kernel, and as several. Traces say nothing there.
    TOGETHER = "network, in place, in strips"
    APART = "network, in place, by several kernels"

    @property
    def is_searched(self) -> bool:
        """Whether kernels are measured in this to find the best of them."""
        return self not in {Surroundings.IN_PLACE, Surroundings.TOGETHER, Surroundings.APART}


@dataclass(frozen=True)
class TimingPlan:
    """How a candidate is timed; every duration in seconds.

    It is visited `visits` times, `apart_s` apart at least. A visit takes `samples` samples of about `sample_s`, fewer
    (but one at least) when `budget_s` is spent, or two that agree with the visit before; a call longer than that is a
    sample by itself. With a best time known, a candidate all of whose samples in two visits are `race_ratio` times
    slower is not visited again, nor is one whose visits agree; and a visit ends after one call that took `hopeless`
    times as long, and longer than `long_call_s` (a single short call tells more of waking threads than of the kernel).
    `surroundings` are those that it is timed in. `in_turns` says that those submitted together are compared with one
    another, so that all of them are timed on one machine.
    """

    sample_s: float = 2e-3
    samples: int = 4
    budget_s: float = 0.02
    visits: int = 3
    apart_s: float = 0.1
    race_ratio: float = CLEARLY_SLOWER_RATIO
    hopeless: float = 3.0
    long_call_s: float = 5e-3
    surroundings: Surroundings = Surroundings.ALONE
    in_turns: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "surroundings", Surroundings(self.surroundings))  # a plan that was sent has its text
        if not (self.sample_s > 0 and self.budget_s > 0 and self.race_ratio > 1 and self.hopeless > 1):
            raise ValueError(f"durations are positive and ratios above 1: {self}")
        if self.samples < 1 or self.visits < 1 or self.apart_s < 0:
            raise ValueError(f"samples and visits are 1 at least, and apart_s is not negative: {self}")

    @property
    def is_raced(self) -> bool:
        """Whether a candidate that is slower than the best is visited less often."""
        return self.race_ratio < _NO_RACE

    def without_race(self) -> TimingPlan:
        """The plan with every visit and sample made, however slow the candidate is."""
        return replace(self, race_ratio=_NO_RACE, hopeless=_NO_RACE)


def take_samples(
    run: Callable[[int], float],
    plan: TimingPlan,
    first: Sequence[float],
    best_s: float | None = None,
    before_s: float | None = None,
) -> Times:
    """The samples of one visit. `run(n)` calls the kernel n times and returns the seconds that all of them took.

    Samples beside one another are alike whatever disturbs the moment, and so say when to end only together with
    `before_s`, what a call took in the visit before. `first` are the seconds of single calls before this, one at least,
    which mapped the kernel's pages and started its threads: they say how many calls make a sample.
    """
    single = max(min(first), _CALL_S)
    if best_s is not None and single > max(plan.hopeless * best_s, plan.long_call_s):
        return (single,)  # no sample would make it the best
    if single > plan.budget_s:  # a sample by itself, of what is warm
        return (max(first[-1], _CALL_S),)
    calls, spent = _calls_per_sample(run, single, plan.sample_s)
    times: list[float] = []
    while not times or (len(times) < plan.samples and spent < plan.budget_s and not _is_as_before(times, before_s)):
        seconds = _time_calls(run, calls)
        spent += seconds
        times.append(seconds / calls)
    return tuple(times)


def is_clearly_slower(visits: Sequence[Times], best_s: float | None, ratio: float = CLEARLY_SLOWER_RATIO) -> bool:
    """Whether every sample, of two visits at least, is `ratio` times longer than the best time."""
    if best_s is None or len(visits) < LEAST_VISITS:
        return False
    return all(seconds > ratio * best_s for times in visits for seconds in times)


def is_known_well(visits: Sequence[Times], best_s: float | None, plan: TimingPlan) -> bool:
    """Whether another visit would tell nothing: two agree, and the candidate may race; where it is slower than the best
    they need not agree so well.
    """
    if best_s is None or len(visits) < LEAST_VISITS or not plan.is_raced:
        return False
    medians = [median_of([times]) for times in visits]
    return _agree(medians, _ABOUT_AGREE if min(medians) > _BEHIND_RATIO * best_s else _VISITS_AGREE)


def _is_as_before(times: Sequence[float], before_s: float | None) -> bool:
    return before_s is not None and len(times) > 1 and _agree([*times, before_s], _SAMPLES_AGREE)


def _agree(seconds: Sequence[float], share: float) -> bool:
    """Whether there are two at least, and all of them are alike."""
    return len(seconds) > 1 and max(seconds) <= (1 + share) * min(seconds)


def or_inf(seconds: float | None) -> float:
    """A time; after a failure, which has none, more than any."""
    return float("inf") if seconds is None else seconds


def median_of(visits: Sequence[Times]) -> float:
    """The median of all samples of one visit or more, in seconds per call."""
    return statistics.median(seconds for times in visits for seconds in times)


def _time_calls(run: Callable[[int], float], calls: int) -> float:
    return max(run(calls), calls * _CALL_S)


def _calls_per_sample(run: Callable[[int], float], first: float, sample_s: float) -> tuple[int, float]:
    """The number of calls that last `sample_s`, and the seconds spent to find out.

    One call of a few microseconds tells little of what many take in a row, so the number is approached in steps.
    """
    calls, seconds, spent = 1, first, 0.0
    while seconds < sample_s / 2:
        calls = min(10 * calls, math.ceil(calls * sample_s / seconds))
        seconds = _time_calls(run, calls)
        spent += seconds
    return max(1, math.ceil(calls * sample_s / seconds)), spent
