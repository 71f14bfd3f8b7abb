"""How much faster one schedule is than another, from pairs of times, and how sure that is."""

from __future__ import annotations

import numpy as np

from metasched.support.data_classes import dataclass

_RESAMPLES = 4000
_CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True)
class Comparison:
    """Seconds per call of two schedules, a pair for each turn."""

    pairs: tuple[tuple[float, float], ...]

    @property
    def medians(self) -> tuple[float, float]:
        """Seconds per call of the first and of the second."""
        first, second = np.median(np.array(self.pairs), axis=0)
        return float(first), float(second)

    @property
    def gain(self) -> float:
        """How many times faster the second is: the median over the turns."""
        return float(np.exp(np.median(self._logs)))

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval of the gain: the percentile bootstrap (Efron 1979) of that median, with a fixed seed."""
        logs = self._logs
        drawn = np.random.default_rng(0).choice(logs, size=(_RESAMPLES, len(logs)))
        low, high = np.exp(
            np.quantile(np.median(drawn, axis=1), [(1 - _CONFIDENCE_LEVEL) / 2, (1 + _CONFIDENCE_LEVEL) / 2])
        )
        return float(low), float(high)

    @property
    def _logs(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([np.log(first / second) for first, second in self.pairs])
