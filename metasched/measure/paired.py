"""Which of two schedules is faster, and how sure that is: both are timed in turns, so that noise hits both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.measure.runner import Runner
from metasched.measure.timing import TimingPlan, median_of

# Nothing is dropped for being slower than the other, and turns follow one another at once.
IN_TURNS = TimingPlan(apart_s=0.02, race_ratio=1e9, hopeless=1e9)
PAIRS = 12
_RESAMPLES = 4000
_LEVEL = 0.95


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
        low, high = np.exp(np.quantile(np.median(drawn, axis=1), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]))
        return float(low), float(high)

    @property
    def _logs(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([np.log(first / second) for first, second in self.pairs])


def compare(runner: Runner, program: Program, first: str, second: str, target: str, pairs: int = PAIRS) -> Comparison:
    """Time two traces in turns, `pairs` times each, first the one and then the other first.

    Raises MetaschedError when one of them does not run.
    """
    plan = replace(IN_TURNS, visits=pairs)
    futures = [runner.submit(program, trace, target, plan=plan) for trace in (first, second)]
    medians = []
    for future in futures:
        measured = future.result()
        if not measured.visits:
            reason = measured.failure.reason if measured.failure is not None else "it has no times"
            raise MetaschedError(f"a schedule that was measured before does not run again: {reason}")
        medians.append([median_of([times]) for times in measured.visits])
    return Comparison(tuple(zip(*medians, strict=True)))
