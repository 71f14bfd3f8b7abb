"""The frozen table as a space that strategies search: it has the measured codes, and nothing else.

A strategy draws, changes and mixes as ever, and what comes of it is moved to the nearest row that was measured:

- Structures are those of the table. A draw takes each alike; a mutation takes one of those that differ in the fewest
  decisions; a cross one of those nearest to a mixture of both parents'.
- A draw of rows takes one that came from the prior of the real space. Those that were bred from fast ones are reached
  by mutation, by crossing and by adopting, as in a real search.
- A mutation takes one of the nearest other rows: by how many variables differ, then by how far the logarithms of their
  numbers are apart, the nearer the more often.
- Repair takes the nearest row to what was made, by the logarithms alone.

So a search on the table is coarser than a real one: a step cannot be as small, and 128 codes of 2,000 are a larger part
of it. What it says of two strategies is to be confirmed live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.contest.described import Structure, Table
from metasched.cost.features import Features
from metasched.cost.learning.ranking import Array
from metasched.lang.instructions import Decision
from metasched.search.rounds.population import Keys, keys
from metasched.search.space_protocol import Candidate, Mask, Rows, StructuralChoice
from metasched.support.cached import cached_property

Positions = np.ndarray[Any, np.dtype[np.int64]]

# The rows that a mutation may lead to, and how much rarer each further one is.
NEAR_COUNT = 12
_FADE_SCALE = 3.0
# The same of structures.
_NEAR_STRUCTURES = 6
_FADE_STRUCTURES = 2.0
# Rows that are compared at a time, so that what is made fits the caches.
_CHUNK_ROWS = 256


class TableArm:
    """A structure of the table, as a strategy sees it: its rows are the support."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    @cached_property
    def name(self) -> str:
        return ", ".join(f"{address} := {taken}" for address, taken in self.structure.decisions.items())

    @property
    def columns(self) -> tuple[str, ...]:
        return self.structure.columns

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.structure.variables.values())

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        """`count` of the rows that came from the prior, each alike; of any, where none did."""
        rows: Rows = self.structure.rows[rng.choice(self._prior, size=count)]
        return rows

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """For each row one of its nearest others; the row itself where there is none."""
        at, count = self.positions(rows), len(self.structure)
        if count == 1 or not len(rows):
            return self.structure.rows[at].copy()
        near = min(NEAR_COUNT, count - 1)
        taken = rng.choice(near, size=len(rows), p=_fading_shares(near, _FADE_SCALE))
        changed: Rows = self.structure.rows[self._nearest_rows[at, taken]]
        return changed

    def repair(self, rows: Rows) -> Rows:
        moved: Rows = self.structure.rows[self.positions(rows)]
        return moved

    def mask(self, rows: Rows) -> Mask:
        """All of them: only measured rows come out of `repair`."""
        return np.ones(len(rows), np.bool_)

    def features(self, rows: Rows) -> Features:
        found: Features = self.structure.features[self.positions(rows)]
        return found

    def adopt(self, rng: np.random.Generator, other: TableArm, rows: Rows) -> Rows:
        """Numbers are kept by address, and the rest is drawn, as `Sketch.adopt` does; not repaired."""
        out = self.sample(rng, len(rows))
        theirs = other.structure.variables
        for address, columns in self.structure.variables.items():
            found = theirs.get(address)
            if found is not None and len(found) == len(columns):
                out[:, columns] = rows[:, found]
        return out

    def seconds(self, row: tuple[int, ...]) -> float:
        """What was measured of a row. Raises KeyError for one that is not in the table."""
        one = np.array([row], np.int64).reshape(1, -1)
        at = int(self.positions(one)[0])
        if tuple(self.structure.rows[at].tolist()) != row:
            raise KeyError(f"row {list(row)} of {self.name} was not measured")
        return float(self.structure.seconds[at])

    def positions(self, rows: Rows) -> Positions:
        """The position of each row among those measured; of the nearest, for one that was not."""
        known, order = self._keys
        wanted = keys(rows)
        at = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        missing = np.flatnonzero(known[at] != wanted)
        for first in range(0, len(missing), _CHUNK_ROWS):
            some = missing[first : first + _CHUNK_ROWS]
            at[some] = _distances(_logs(rows[some]), self._logs).argmin(axis=1)
        return at

    # --- what is made once

    @cached_property
    def _prior(self) -> Positions:
        drawn = np.flatnonzero(self.structure.drawn)
        return drawn if len(drawn) else np.arange(len(self.structure))

    @cached_property
    def _keys(self) -> tuple[Keys, Positions]:
        found = keys(self.structure.rows)
        return found, np.argsort(found, kind="stable")

    @cached_property
    def _logs(self) -> Array:
        return _logs(self.structure.rows)

    @cached_property
    def _nearest_rows(self) -> Positions:
        """The nearest others of each row, the nearest first: (n, NEAR at most)."""
        count = len(self.structure)
        out = np.empty((count, min(NEAR_COUNT, count - 1)), np.int64)
        for n, row in enumerate(self.structure.rows):
            changed = self.structure.rows != row
            differing = sum(
                (changed[:, list(columns)].any(axis=1) for columns in self.groups), start=np.zeros(count, np.int64)
            )
            apart = np.abs(self._logs - self._logs[n]).sum(axis=1)
            order = np.lexsort((apart, differing))
            out[n] = order[order != n][: out.shape[1]]
        return out


class TableArms:
    """The structures of a table. All of them are there from the start, in an order that says nothing."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._arms = [TableArm(structure) for structure in table.structures]
        self._choices: dict[int, tuple[StructuralChoice, ...]] = {}

    def __len__(self) -> int:
        return len(self._arms)

    def __getitem__(self, number: int) -> TableArm:
        return self._arms[number]

    def first(self) -> int | None:
        """The structure with the most rows from the prior: a real space has one that it begins with."""
        return int(np.argmax([structure.drawn.sum() for structure in self.table.structures])) if self._arms else None

    def known(self) -> Sequence[int]:
        """None: a contest begins with nothing that is known beforehand."""
        return []

    def draw(self, rng: np.random.Generator) -> int | None:
        """One of those that the prior gave, each alike."""
        return int(rng.choice(self._prior))

    def mutate(self, rng: np.random.Generator, arm: int) -> int | None:
        """One of the nearest others; None where there is no other."""
        return self._draw_near(rng, self._decisions(arm), {arm})

    def cross(self, rng: np.random.Generator, mother: int, father: int) -> int | None:
        """One of the nearest to a mixture of two, which may be one of them."""
        mine, theirs = self._decisions(mother), self._decisions(father)
        mixed = {address: (mine, theirs)[int(rng.random() < 0.5)].get(address) for address in sorted({*mine, *theirs})}
        return self._draw_near(rng, {address: taken for address, taken in mixed.items() if taken is not None}, set())

    def choices(self, arm: int) -> tuple[StructuralChoice, ...]:
        """The decisions of an arm where the table has several, given what was decided before, in their order."""
        if arm not in self._choices:
            self._choices[arm] = self._choices_of(arm)
        return self._choices[arm]

    def _choices_of(self, arm: int) -> tuple[StructuralChoice, ...]:
        found: list[StructuralChoice] = []
        alike = [list(structure.decisions.items()) for structure in self.table.structures]
        for at, (address, taken) in enumerate(self._decisions(arm).items()):
            alike = [items for items in alike if at < len(items) and items[at][0] == address]
            options = tuple(sorted({items[at][1] for items in alike}))
            if len(options) > 1:
                found.append(StructuralChoice(address, options, options.index(taken)))
            alike = [items for items in alike if items[at][1] == taken]
        return tuple(found)

    def of(self, rng: np.random.Generator, decisions: Mapping[str, Decision]) -> int | None:
        """One of those that most of the decisions are those of; ties by chance."""
        unlike = [sum(self._decisions(n).get(at) != taken for at, taken in decisions.items()) for n in range(len(self))]
        return int(np.lexsort((rng.random(len(self)), np.array(unlike)))[0])

    def seconds(self, candidate: Candidate) -> float:
        """What was measured. Raises KeyError for what is not in the table."""
        return self._arms[candidate.arm].seconds(candidate.row)

    def _decisions(self, arm: int) -> Mapping[str, str]:
        return self.table.structures[arm].decisions

    @cached_property
    def _prior(self) -> Positions:
        drawn = [n for n, structure in enumerate(self.table.structures) if structure.drawn.any()]
        return np.array(drawn or range(len(self._arms)), np.int64)

    def _draw_near(self, rng: np.random.Generator, decisions: Mapping[str, str], without: set[int]) -> int | None:
        """Draw one of the nearest to some decisions, the nearer the more often; ties by chance."""
        others = [n for n in range(len(self._arms)) if n not in without]
        if not others:
            return None
        apart = np.array([_count_differing(decisions, self._decisions(n)) for n in others])
        order = np.lexsort((rng.random(len(others)), apart))[:_NEAR_STRUCTURES]
        return others[int(rng.choice(order, p=_fading_shares(len(order), _FADE_STRUCTURES)))]


def _count_differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> int:
    """Count the addresses that are decided otherwise, or by one of both alone."""
    return sum(mine.get(address) != theirs.get(address) for address in {*mine, *theirs})


def _fading_shares(count: int, scale: float) -> Array:
    weights = np.exp(-np.arange(count) / scale)
    shares: Array = weights / weights.sum()
    return shares


def _logs(rows: Rows) -> Array:
    logs: Array = np.log2(1.0 + np.maximum(rows, 0))
    return logs


def _distances(some: Array, all_: Array) -> Array:
    """Squared distances, (some, all)."""
    apart: Array = (some**2).sum(axis=1)[:, None] + (all_**2).sum(axis=1)[None] - 2.0 * some @ all_.T
    return apart
