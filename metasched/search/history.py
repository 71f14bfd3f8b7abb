"""What has been measured, as the arrays that a model and a population need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.cost.features import NAMES, Features
from metasched.cost.footprint import Array
from metasched.search.space_protocol import Arm, Candidate, Observation, Rows


class History:
    """Observations in the order they came; the first of a candidate counts."""

    def __init__(self, arms: Sequence[Arm]) -> None:
        self._arms = arms
        self._features: list[Features] = []
        self._seconds: list[float] = []
        self._seen: dict[Candidate, float] = {}
        self._bounds: set[Candidate] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, candidate: object) -> bool:
        return candidate in self._seen

    def add(self, results: Sequence[Observation]) -> None:
        """Failures count as infinitely slow."""
        fresh: dict[Candidate, float] = {}
        for result in results:
            if result.candidate not in self._seen:
                seconds = float("inf") if result.seconds is None else result.seconds
                fresh.setdefault(result.candidate, seconds)
                if result.bound:
                    self._bounds.add(result.candidate)
        features = np.empty((len(fresh), len(NAMES)), np.float32)
        for arm in {candidate.arm for candidate in fresh}:
            at = [n for n, candidate in enumerate(fresh) if candidate.arm == arm]
            rows = [candidate.row for candidate in fresh if candidate.arm == arm]
            features[at] = self._arms[arm].features(self._as_rows(arm, rows))
        self._features.append(features)
        self._seconds += fresh.values()
        self._seen |= fresh

    def _as_rows(self, arm: int, rows: list[tuple[int, ...]]) -> Rows:
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self._arms[arm].columns))

    @property
    def features(self) -> Features:
        return np.concatenate(self._features) if self._features else np.empty((0, len(NAMES)), np.float32)

    @property
    def throughput(self) -> Array:
        """The best time over each time; 0 for a failure, and all 0 before the first success.

        Of a time that is a bound it is the most that the candidate may have, and such a time is never the best.
        """
        seconds = np.array(self._seconds)
        timed = np.array([candidate not in self._bounds for candidate in self._seen], dtype=bool)
        best = seconds[timed].min(initial=np.inf)
        return np.zeros(len(seconds)) if np.isinf(best) else np.minimum(best / seconds, 1.0)

    def best(self, arm: int) -> float:
        """The highest throughput measured of an arm; 0 when there is none."""
        throughput = self.throughput
        return max((float(throughput[n]) for n, c in enumerate(self._seen) if c.arm == arm), default=0.0)

    def measured(self, arm: int) -> int:
        """How many candidates of an arm were measured."""
        return sum(candidate.arm == arm for candidate in self._seen)

    def rows(self, arm: int) -> Rows:
        """The measured rows of an arm."""
        return self._as_rows(arm, [candidate.row for candidate in self._seen if candidate.arm == arm])

    def elite(self, arm: int, count: int) -> Rows:
        """The `count` fastest rows of an arm, failures left out, those with a bound for a time last."""
        found = [
            (c in self._bounds, s, n, c.row)
            for n, (c, s) in enumerate(self._seen.items())
            if c.arm == arm and np.isfinite(s)
        ]
        return self._as_rows(arm, [row for *_, row in sorted(found)[:count]])
