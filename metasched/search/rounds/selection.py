"""The rows scored in one round, and the selection of a batch from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.search.rounds.population import Keys, Positions, keys
from metasched.search.space_protocol import Candidate, Rows

# The penalty for a candidate that equals one in the batch already, in units of the spread of scores.
LIKENESS = 0.25
SHORTLIST = 256


class Pool:
    """Scored rows by arm, in the order in which the arms come.

    `measured` gives the keys of the rows of an arm that were measured and must not be proposed.
    """

    def __init__(self, measured: Callable[[int], Keys]) -> None:
        self._measured_of = measured
        self._measured: dict[int, Keys] = {}
        self._rows: dict[int, list[Rows]] = {}
        self._scores: dict[int, list[Array]] = {}
        self._keys: dict[int, Keys] = {}

    @property
    def arms(self) -> list[int]:
        return list(self._rows)

    def _open_arm(self, arm: int) -> None:
        if arm not in self._rows:
            self._measured[arm] = self._measured_of(arm)
            self._rows[arm], self._scores[arm] = [], []
            self._keys[arm] = np.empty(0, np.uint64)

    def add(self, arm: int, rows: Rows, scores: Array) -> None:
        self._open_arm(arm)
        self._rows[arm].append(rows)
        self._scores[arm].append(scores)
        self._keys[arm] = np.concatenate([self._keys[arm], keys(rows)])

    def rows(self, arm: int) -> Rows:
        if len(self._rows[arm]) > 1:
            self._rows[arm] = [np.concatenate(self._rows[arm])]
            self._scores[arm] = [np.concatenate(self._scores[arm])]
        return self._rows[arm][0]

    def scores(self, arm: int) -> Array:
        self.rows(arm)
        return self._scores[arm][0]

    def known_keys(self, arm: int) -> Keys:
        """The keys of all rows of an arm in the pool."""
        return self._keys.get(arm, np.empty(0, np.uint64))

    def has_rows(self, arm: int) -> bool:
        """Whether there are rows of an arm."""
        return bool(self._rows.get(arm))

    def highest_score(self, arm: int) -> float:
        """The best score of an arm, measured rows included."""
        return float(np.max(self.scores(arm)))

    def population(self, arms: Sequence[int], size: int | None = None) -> tuple[Positions, Positions, Array]:
        """The best rows of some arms, `size` of them: arm, position in `rows(arm)`, score. Measured rows count."""
        filled = [arm for arm in arms if self.has_rows(arm)]
        if not filled:
            empty = np.empty(0, np.int64)
            return empty, empty, np.empty(0)
        scores = np.concatenate([self.scores(arm) for arm in filled])
        of_arm = np.concatenate([np.full(len(self.scores(arm)), arm) for arm in filled])
        positions = np.concatenate([np.arange(len(self.scores(arm))) for arm in filled])
        best = np.argsort(-scores, kind="stable")[:size]
        return of_arm[best], positions[best], scores[best]

    def fresh(self, arm: int) -> Positions:
        """Positions of rows that were never measured."""
        if not self._rows.get(arm):
            return np.empty(0, np.int64)
        if not len(self._measured[arm]):
            return np.arange(len(self.rows(arm)))
        return np.flatnonzero(~np.isin(self.known_keys(arm), self._measured[arm]))

    def best_unmeasured(self, arm: int) -> tuple[float, Candidate] | None:
        """The best row of an arm that was never measured."""
        positions = self.fresh(arm)
        if not len(positions):
            return None
        at = positions[int(np.argmax(self.scores(arm)[positions]))]
        return float(self.scores(arm)[at]), _candidate(arm, self.rows(arm)[at])

    def shortlist(self, size: int) -> tuple[list[Candidate], Array]:
        """The `size` best rows that were never measured, with their scores, best first."""
        entries: list[tuple[float, int, int]] = []
        arms = self.arms
        for place, arm in enumerate(arms):
            positions = self.fresh(arm)
            scores = self.scores(arm)[positions] if len(positions) else np.empty(0)
            best = np.argsort(-scores, kind="stable")[:size]
            entries += [(-float(scores[p]), place, int(positions[p])) for p in best]
        entries.sort()
        found = [_candidate(arms[place], self.rows(arms[place])[at]) for _, place, at in entries[:size]]
        return found, np.array([-score for score, _, _ in entries[:size]])


def _candidate(arm: int, row: Rows) -> Candidate:
    return Candidate(arm, tuple(int(value) for value in row))


# Whether each of some candidates, best first, is a twin: of an earlier one, or of one that needs no second look.
FindTwins = Callable[[Sequence[Candidate]], list[bool]]


def choose_unlike(
    pool: Pool, count: int, taken: Sequence[Candidate], find_twins: FindTwins = lambda given: [False] * len(given)
) -> list[Candidate]:
    """Up to `count` more candidates: high scores, and unlike those taken and one another.

    One at a time, the highest score less a penalty for its likeness (the share of equal columns) to the most alike
    candidate in the batch: greedy maximal marginal relevance (Carbonell and Goldstein 1998). Twins come last.
    """
    candidates, scores = pool.shortlist(SHORTLIST) if count > 0 else ([], np.empty(0))
    if not candidates:
        return []
    scale = LIKENESS * float(np.std(scores))
    width = max(len(candidate.row) for candidate in candidates)
    rows = np.full((len(candidates), width + 1), -1, dtype=np.int64)
    for n, candidate in enumerate(candidates):
        rows[n, 0] = candidate.arm
        rows[n, 1 : 1 + len(candidate.row)] = candidate.row
    likeness = np.zeros(len(candidates))
    free = np.ones(len(candidates), dtype=bool)

    def take(candidate: Candidate) -> None:
        row = np.full(width + 1, -2, dtype=np.int64)
        row[0] = candidate.arm
        row[1 : 1 + min(width, len(candidate.row))] = candidate.row[:width]
        same = (rows[:, 1:] == row[1:]).sum(axis=1) / max(len(candidate.row), 1)
        np.maximum(likeness, np.where(rows[:, 0] == candidate.arm, same, 0.0), out=likeness)

    known = set(taken)
    for n, candidate in enumerate(candidates):
        free[n] = candidate not in known
    for candidate in taken:
        take(candidate)
    chosen: list[Candidate] = []
    first = free & ~np.array(find_twins(candidates), dtype=bool)
    while len(chosen) < count and free.any():
        left = free & first
        value = np.where(left if left.any() else free, scores - scale * likeness, -np.inf)
        at = int(np.argmax(value))
        free[at] = False
        chosen.append(candidates[at])
        take(candidates[at])
    return chosen
