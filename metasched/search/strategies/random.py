"""Random search: the baseline that every other strategy has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.search.history import History
from metasched.search.population import draw
from metasched.search.space_protocol import Arms, Candidate, Observation, Strategy
from metasched.search.strategy import StrategyInputs


class RandomSearch:
    """The strategy `random`: structures from the prior, and a row of each from its own."""

    def __init__(self, arms: Arms, seed: int) -> None:
        if arms.first() is None:
            raise ValueError("nothing to search: the space has no sketch")
        self.arms = arms
        self.seed = seed
        self.history = History(arms)

    def observe(self, results: Sequence[Observation]) -> None:
        self.history.add(results)

    def propose(self, count: int) -> list[Candidate]:
        rng = np.random.default_rng([self.seed, len(self.history)])
        chosen: dict[Candidate, None] = {}
        for _ in range(20 * count):
            if len(chosen) == count:
                break
            n = self.arms.draw(rng)
            if n is None:
                continue
            for row in draw(rng, self.arms[n], 1):
                candidate = Candidate(n, tuple(int(v) for v in row))
                if candidate not in self.history:
                    chosen[candidate] = None
        return list(chosen)


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `random`. Raises ValueError for a space without an arm."""
    return RandomSearch(given.arms, given.seed)
