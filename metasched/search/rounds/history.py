"""The observations of a search, as the arrays that a model and a population need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from metasched.cost.features import NAMES, Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.measure.timing import or_inf
from metasched.search.space_protocol import Arm, Arms, Candidate, Observation, Rows

Positions = np.ndarray[Any, np.dtype[np.int64]]


class _ArmHistory:
    """The rows of one arm, and their positions among all observations; new ones become arrays when they are read."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._rows: Rows = np.empty((0, len(arm.columns)), np.int64)
        self._positions: Positions = np.empty(0, np.int64)
        self._new_rows: list[tuple[int, ...]] = []
        self._new_positions: list[int] = []

    def add(self, row: tuple[int, ...], position: int) -> None:
        self._new_rows.append(row)
        self._new_positions.append(position)

    def __len__(self) -> int:
        return len(self._positions) + len(self._new_positions)

    @property
    def rows(self) -> Rows:
        self._flush()
        return self._rows

    @property
    def positions(self) -> Positions:
        self._flush()
        return self._positions

    def _flush(self) -> None:
        if self._new_rows:
            rows = np.array(self._new_rows, dtype=np.int64).reshape(len(self._new_rows), len(self._arm.columns))
            self._rows = np.concatenate([self._rows, rows])
            self._positions = np.concatenate([self._positions, np.array(self._new_positions, dtype=np.int64)])
            self._new_rows, self._new_positions = [], []

    def features_from(self, first: int) -> tuple[Positions, Features]:
        """The features of the rows at position `first` and later."""
        self._flush()
        at = int(np.searchsorted(self._positions, first))
        return self._positions[at:], self._arm.features(self._rows[at:])


class History:
    """Observations in the order they were added; the first of each candidate counts.

    Adding is cheap, so that a resumed search can replay its batches one by one: features are computed for all new
    observations together, when they are read.
    """

    def __init__(self, arms: Arms) -> None:
        self._of = arms
        self._arms: dict[int, _ArmHistory] = {}
        self._seen: dict[Candidate, None] = {}
        self._seconds: list[float] = []
        self._is_bound: list[bool] = []
        self._features = np.empty((0, len(NAMES)), np.float32)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, candidate: object) -> bool:
        return candidate in self._seen

    def add(self, results: Sequence[Observation]) -> None:
        """Failures count as infinitely slow."""
        for result in results:
            if result.candidate not in self._seen:
                self._arm(result.candidate.arm).add(result.candidate.row, len(self._seen))
                self._seen[result.candidate] = None
                self._seconds.append(or_inf(result.seconds))
                self._is_bound.append(result.bound)

    def seconds(self) -> list[tuple[Candidate, float]]:
        """Every candidate in order, and its time; infinity for a failure."""
        return list(zip(self._seen, self._seconds, strict=True))

    def fastest_candidates(self, count: int) -> list[Candidate]:
        """The `count` fastest candidates, failures left out, those with a bound for a time last."""
        order = sorted(zip(self._is_bound, self._seconds, range(len(self._seen)), strict=True))
        seen = list(self._seen)
        return [seen[at] for _, seconds, at in order[:count] if seconds < float("inf")]

    def until(self, count: int) -> History:
        """The first `count` observations, as they were then."""
        found = History(self._of)
        times = zip(self._seen, self._seconds, self._is_bound, strict=True)
        found.add([Observation(c, None if s == float("inf") else s, bound) for c, s, bound in islice(times, count)])
        return found

    def _arm(self, number: int) -> _ArmHistory:
        if number not in self._arms:
            self._arms[number] = _ArmHistory(self._of[number])
        return self._arms[number]

    @property
    def arms(self) -> list[int]:
        """The arms that something was measured of, the fastest first, then in the order in which they were."""
        return sorted(self._arms, key=lambda arm: -self.best_score(arm))

    @property
    def features(self) -> Features:
        """The features of every observation, in order: (n, F)."""
        known = len(self._features)
        if known < len(self._seen):
            new = np.empty((len(self._seen) - known, len(NAMES)), np.float32)
            for arm in self._arms.values():
                if len(arm) and arm.positions[-1] >= known:
                    positions, features = arm.features_from(known)
                    new[positions - known] = features
            self._features = np.concatenate([self._features, new])
        return self._features

    @property
    def times(self) -> TaskTimes:
        """Every observation, in order, for a model to learn from."""
        return TaskTimes(self.features, np.array(self._seconds), np.array(self._is_bound, dtype=bool))

    def best_score(self, arm: int) -> float:
        """-log2 of the shortest time of an arm, as models score; -inf where there is none."""
        if arm not in self._arms:
            return -np.inf
        return -float(np.log2(min((self._seconds[n] for n in self._arms[arm].positions), default=np.inf)))

    def measured_count(self, arm: int) -> int:
        """The number of candidates of an arm that were measured."""
        return len(self._arms[arm]) if arm in self._arms else 0

    def rows(self, arm: int) -> Rows:
        """The measured rows of an arm."""
        return self._history_of(arm).rows

    def _history_of(self, number: int) -> _ArmHistory:
        """The history of an arm, which is empty where nothing was measured."""
        return self._arms.get(number) or _ArmHistory(self._of[number])

    def elite(self, arm: int, count: int) -> Rows:
        """The `count` fastest rows of an arm, failures left out, those with a bound for a time last."""
        found = self._history_of(arm)
        seconds = np.array([self._seconds[n] for n in found.positions])
        bounds = np.array([self._is_bound[n] for n in found.positions], dtype=bool)
        order = np.lexsort((seconds, bounds))
        fastest: Rows = found.rows[order[np.isfinite(seconds[order])][:count]]
        return fastest
