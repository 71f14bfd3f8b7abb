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

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, candidate: object) -> bool:
        return candidate in self._seen

    def add(self, results: Sequence[Observation]) -> None:
        """Failures count as infinitely slow."""
        for result in results:
            candidate = result.candidate
            if candidate in self._seen:
                continue
            seconds = float("inf") if result.seconds is None else result.seconds
            self._seen[candidate] = seconds
            self._seconds.append(seconds)
            row = np.array([candidate.row], dtype=np.int64).reshape(1, len(candidate.row))
            self._features.append(self._arms[candidate.arm].features(row))

    @property
    def features(self) -> Features:
        return np.concatenate(self._features) if self._features else np.empty((0, len(NAMES)), np.float32)

    @property
    def throughput(self) -> Array:
        """The best time over each time; 0 for a failure, and all 0 before the first success."""
        seconds = np.array(self._seconds)
        best = seconds.min(initial=np.inf)
        return np.zeros(len(seconds)) if np.isinf(best) else best / seconds

    def measured(self, arm: int) -> int:
        """How many candidates of an arm were measured."""
        return sum(candidate.arm == arm for candidate in self._seen)

    def rows(self, arm: int) -> Rows:
        """The measured rows of an arm."""
        found = [candidate.row for candidate in self._seen if candidate.arm == arm]
        return np.array(found, dtype=np.int64).reshape(len(found), len(self._arms[arm].columns))

    def elite(self, arm: int, count: int) -> Rows:
        """The `count` fastest rows of an arm, failures left out."""
        found = [(s, n, c.row) for n, (c, s) in enumerate(self._seen.items()) if c.arm == arm and np.isfinite(s)]
        rows = [row for _, _, row in sorted(found)[:count]]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self._arms[arm].columns))
