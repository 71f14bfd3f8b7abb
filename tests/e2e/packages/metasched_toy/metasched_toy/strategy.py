"""A strategy: rows of structures, as they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.search.space_protocol import Arms, Candidate, Observation, Strategy
from metasched.search.strategy_registry import StrategyInputs


class First:
    """Draws structures and rows of each, and never learns."""

    def __init__(self, arms: Arms, seed: int) -> None:
        self._arms = arms
        self._seed = seed
        self._seen: set[Candidate] = set()

    def observe(self, results: Sequence[Observation]) -> None:
        self._seen.update(result.candidate for result in results)

    def propose(self, count: int) -> list[Candidate]:
        rng = np.random.default_rng([self._seed, len(self._seen)])
        found: dict[Candidate, None] = {}
        for _ in range(4 * count):
            number = self._arms.draw(rng)
            if number is None:
                continue
            arm = self._arms[number]
            rows = arm.repair(arm.sample(rng, 16))
            for row in rows[arm.mask(rows)]:
                candidate = Candidate(number, tuple(int(x) for x in row))
                if candidate not in self._seen:
                    found[candidate] = None
        return list(found)[:count]


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `toy_first`."""
    return First(given.arms, given.seed)
