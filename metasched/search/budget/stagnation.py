"""Whether a search has stagnated: for how many trials it has found nothing that is faster by more than noise."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.support.data_classes import dataclass

# A gain that counts: so many standard deviations of a time, and at least so much and at most so much.
_GAIN_DEVIATIONS = 2.0
_LEAST_GAIN = 0.02
_MOST_GAIN = 0.1
# A search stagnates after so many trials without a gain, or as many as came before the last gain, where these are more.
_LEAST_TRIALS = 100


@dataclass(frozen=True)
class Stagnation:
    """How long ago a search found something faster.

    Attributes:
        since: trials since the last gain.
        trials: all trials so far.
        gain: by what share of its time a candidate has to be faster than the last that was, to be no noise.
    """

    since: int
    trials: int
    gain: float

    @property
    def is_reached(self) -> bool:
        """Whether the search has stagnated: more of the same trials are likely a waste."""
        return self.since >= max(_LEAST_TRIALS, self.trials - self.since)

    def __str__(self) -> str:
        return f"nothing better in the last {self.since} trials"


def least_gain(deviation: float | None) -> float:
    """The share of its time by which a candidate is faster for sure, where times deviate so much; None if that is not
    known.
    """
    return _LEAST_GAIN if deviation is None else min(max(_LEAST_GAIN, _GAIN_DEVIATIONS * deviation), _MOST_GAIN)


def stagnation_of(records: Sequence[tuple[int, float]], trials: int, gain: float) -> Stagnation:
    """The stagnation of a search of so many trials.

    `records` are the trials that were faster than all before them: how many trials there were with each, and its
    seconds. Gains add up: what counts is the time of the last trial that counted.
    """
    last, best = 0, float("inf")
    for trial, seconds in records:
        if seconds < best * (1 - gain):
            last, best = trial, seconds
    return Stagnation(trials - last, trials, gain)
