"""Steps from the best that were measured: the neighbours of a few candidates, from as near as there are any.

The neighbours of a candidate have one number that is a step away, a factor moved between two numbers of one variable,
or one structural decision taken otherwise. Where the best have no neighbour left that was not measured, the neighbours
of these are next, so the step grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from metasched.search.rounds.population import distinct, keys, legal
from metasched.search.rounds.round import Round
from metasched.search.rounds.selection import Pool, choose_unlike
from metasched.search.space_protocol import Arm, Arms, Candidate, Rows
from metasched.support.data_classes import dataclass

# A number changes by one of these factors, by a half or a quarter of it, and a small one by one.
_FACTORS = (2, 3, 4, 8)
_SMALL_NUMBER = 8


@dataclass(frozen=True)
class DescentConfig:
    """Descends from the `best` candidates, by up to `steps` at a time.

    A ring of neighbours is as wide as `ring`: the most promising of it have neighbours in turn. For each of the best
    up to `others` structures are tried that differ in one decision.
    """

    best: int = 3
    steps: int = 3
    ring: int = 32
    others: int = 4


@dataclass(frozen=True)
class Descent:
    """Proposes candidates next to the best."""

    arms: Arms
    config: DescentConfig = DescentConfig()

    def choose(self, now: Round, count: int) -> list[Candidate]:
        """Up to `count` candidates next to the best measured, a like share to each; none before any was measured."""
        return [candidate for part in self.choose_in_parts(now, count) for candidate in part]

    def choose_in_parts(self, now: Round, count: int) -> Iterator[list[Candidate]]:
        """What `choose` returns: first what is next to the best of all, before there is a look around the others."""
        centres = now.history.fastest_candidates(self.config.best)
        chosen: list[Candidate] = []
        left = len(centres)
        for some in (centres[:1], centres[1:]):
            before = len(chosen)
            for pool, near in self._surroundings(now, some):
                share = -(-(count - len(chosen)) // left)
                chosen += self._choose_around(now, pool, near, share, chosen)
                left -= 1
            if len(chosen) > before:
                yield chosen[before:]

    def _surroundings(self, now: Round, centres: Sequence[Candidate]) -> list[tuple[Pool, dict[int, Rows]]]:
        """The rows next to each of some candidates, and a pool for what is found around it."""
        around = [(Pool(lambda arm: keys(now.history.rows(arm))), self._ring(now, centre)) for centre in centres]
        found = [(pool, self._ring_neighbours(pool, ring)) for pool, ring in around]
        now.describe([near for _, near in found])
        return found

    def _choose_around(
        self, now: Round, pool: Pool, near: dict[int, Rows], count: int, taken: Sequence[Candidate]
    ) -> list[Candidate]:
        """Up to `count` of the rows `near` a candidate, or of those next to these."""
        chosen: list[Candidate] = []
        for step in range(self.config.steps):
            if step:
                near = self._ring_neighbours(pool, {n: rows[: self.config.ring] for n, rows in near.items()})
            for n, scores in now.score(near).items():
                if len(scores):
                    pool.add(n, near[n], scores)
            chosen += choose_unlike(pool, count - len(chosen), [*taken, *chosen], lambda given: now.twins(given, taken))
            if len(chosen) >= count:
                break
        return chosen

    def _ring(self, now: Round, centre: Candidate) -> dict[int, Rows]:
        """A candidate's row, in its own structure and in some that differ in one decision."""
        return {**self._rows_elsewhere(now, centre), centre.arm: np.array([centre.row], dtype=np.int64).reshape(1, -1)}

    def _ring_neighbours(self, pool: Pool, ring: Mapping[int, Rows]) -> dict[int, Rows]:
        """The rows that are next to the rows of a ring, by arm."""
        return {n: self._neighbours(pool, n, rows) for n, rows in ring.items()}

    def _neighbours(self, pool: Pool, arm: int, rows: Rows) -> Rows:
        """The rows of an arm next to some that are not in a pool."""
        found = [rows, *(neighbours(self.arms[arm], row) for row in rows)]
        return distinct(np.concatenate(found), pool.known_keys(arm))

    def _rows_elsewhere(self, now: Round, centre: Candidate) -> dict[int, Rows]:
        """The row of a candidate in structures that differ from its own in one decision."""
        choices = self.arms.choices(centre.arm)
        decisions = {choice.address: choice.options[choice.taken] for choice in choices}
        changes = [(c, n) for c in choices for n in range(len(c.options)) if n != c.taken]
        row = np.array([centre.row], dtype=np.int64).reshape(1, -1)
        found: dict[int, Rows] = {}
        for at in now.rng.permutation(len(changes))[: self.config.others].tolist():
            choice, n = changes[at]
            arm = self.arms.of(now.rng, {**decisions, choice.address: choice.options[n]})
            if arm is not None and arm != centre.arm:
                found[arm] = now.adopt_rows(now.rng, arm, centre.arm, row)
        return found


def neighbours(arm: Arm, row: Rows) -> Rows:
    """The legal rows a small step away from one: (n, columns), distinct."""
    changed = [
        _with_values(row, {column: value}) for column in range(len(row)) for value in _near_values(int(row[column]))
    ]
    for group in arm.groups:
        changed += [_with_values(row, {a: row[a] * 2, b: row[b] // 2}) for a in group for b in group if a != b]
    if not changed:
        return row[None, :][:0]
    return distinct(legal(arm, np.array(changed)), keys(row[None, :]))


def _near_values(value: int) -> list[int]:
    near = [value * factor for factor in _FACTORS] + [value // factor for factor in _FACTORS]
    return [*near, value * 3 // 2, value * 3 // 4, *((value - 1, value + 1) if value <= _SMALL_NUMBER else ())]


def _with_values(row: Rows, values: dict[int, int]) -> Rows:
    out = row.copy()
    for column, value in values.items():
        out[column] = value
    return out
