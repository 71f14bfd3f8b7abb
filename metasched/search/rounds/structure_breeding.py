"""Which structures a round looks at: those measured fastest, some drawn once for all, and offspring of the best.

How good a structure can be is what its best row was measured or is predicted to take, of a few draws and of its
parent's best rows carried over. So nothing is left out for good, and what is made in a round is bounded; a structure
that was not measured is forgotten, and bred again if its parents stay good.
"""

from __future__ import annotations

import numpy as np

from metasched.search.rounds.population import Keys, distinct, draw, draw_arms, draw_parents
from metasched.search.rounds.round import Described, Round
from metasched.search.space_protocol import Arms
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

_NO_KEYS: Keys = np.empty(0, np.uint64)
# Rows of a parent that a new arm is judged by.
_ADOPTED_ROWS = 32
_PROBING, _FIRST, _BORN = 1, 2, 3


@dataclass(frozen=True)
class StructureConfig:
    """How many structures a round looks at.

    It looks at `structures` that were drawn once, at as many of those measured fastest, and breeds `bred` new ones in
    `steps`, with two parents with probability `cross`. Of every one `probe` draws are scored.
    """

    structures: int = 12
    bred: int = 6
    steps: int = 2
    cross: float = 0.3
    probe: int = 64

    def __post_init__(self) -> None:
        if min(self.probe, self.structures, self.steps) < 1 or self.bred < 0:
            raise ValueError(f"structures are positive numbers: {self}")
        if not 0 <= self.cross <= 1:
            raise ValueError(f"probabilities lie between 0 and 1: {self}")


class StructureBreeding:
    """Chooses the structures of each round of a search.

    Args:
        arms: the structures there are.
        seed: of the search.
        config: how many.
    """

    def __init__(self, arms: Arms, seed: int, config: StructureConfig) -> None:
        self._arms = arms
        self._seed = seed
        self._config = config
        self._probes: dict[int, Described] = {}

    @cached_property
    def first_structures(self) -> list[int]:
        """Structures from the prior, the same in every round."""
        return draw_arms(np.random.default_rng([self._seed, _FIRST]), self._arms, self._config.structures)

    def begin(self, now: Round) -> None:
        """Put the structures that a round begins with into its pool: those measured fastest, and the first ones."""
        parents = dict.fromkeys([*now.history.arms[: self._config.structures], *self.first_structures])
        now.add_described({n: self._probe(now, n) for n in parents if not now.pool.has_rows(n)})

    def breed(self, now: Round) -> None:
        """Add new ones to the pool, bred from those that look best, in a few steps: children may be parents."""
        each = -(-self._config.bred // self._config.steps)
        for _ in range(self._config.steps):
            ranked = now.ranked_arms()
            born: dict[int, Described] = {}
            for _ in range(2 * each if ranked else 0):
                if len(born) == each:
                    break
                mother, child = self._child(now, ranked)
                if child is not None and child not in born and not now.pool.has_rows(child):
                    born[child] = self.newborn(now, mother, child)
            now.add_described(born)

    def _child(self, now: Round, ranked: list[int]) -> tuple[int, int | None]:
        """A mother and her child, the better arms more often."""
        ranks = -np.arange(len(ranked), dtype=np.float64)
        mother, father = (ranked[at] for at in draw_parents(now.rng, ranks, 2))
        crossed = now.rng.random() < self._config.cross
        return mother, self._arms.cross(now.rng, mother, father) if crossed else self._arms.mutate(now.rng, mother)

    def more(self, now: Round, count: int) -> int:
        """Add up to `count` arms from the prior to the pool that are not in it; returns how many were drawn anew."""
        drawn = (self._arms.draw(now.rng) for _ in range(count))
        new = list(dict.fromkeys(n for n in drawn if n is not None and not now.pool.has_rows(n)))
        now.add_described({n: self._probe(now, n) for n in new})
        return len(new)

    def _probe(self, now: Round, arm: int) -> Described:
        """A few draws of an arm, the same in every round: they tell which arms are promising."""
        found = self._probes.get(arm)
        if found is None:
            rows = draw(now.stream(arm, _PROBING), self._arms[arm], self._config.probe)
            now.scored += len(rows)
            found = self._probes[arm] = (rows, self._arms[arm].features(rows))
        return found

    def newborn(self, now: Round, parent: int, arm: int) -> Described:
        """What a new arm is judged by: draws, and its parent's best rows."""
        rng = now.stream(arm, _BORN, len(now.history))
        adopted = now.adopt_rows(rng, arm, parent, now.best_rows(parent, _ADOPTED_ROWS))
        rows = distinct(np.concatenate([adopted, draw(rng, self._arms[arm], self._config.probe // 2)]), _NO_KEYS)
        now.scored += len(rows)
        return rows, self._arms[arm].features(rows)
