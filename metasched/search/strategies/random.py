"""Random search: the baseline that every other strategy has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.search.rounds.history import History
from metasched.search.rounds.population import draw
from metasched.search.space_protocol import Arms, Candidate, Observation, Strategy
from metasched.search.strategy_registry import StrategyInputs

# How often a structure is drawn for each candidate that is wanted, and, where these are too few, with many rows each;
# the first structure is there where others cannot be made.
_DRAWS_EACH = 20
_MANY_ROWS = 1024


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
        for rows in [*[1] * (_DRAWS_EACH * count), *[_MANY_ROWS] * _DRAWS_EACH]:
            if len(chosen) == count:
                break
            n = self.arms.draw(rng)
            if n is None and rows == _MANY_ROWS:
                n = self.arms.first()
            if n is not None:
                found = (Candidate(n, tuple(row)) for row in draw(rng, self.arms[n], rows).tolist())
                new = [candidate for candidate in found if candidate not in self.history and candidate not in chosen]
                chosen |= dict.fromkeys(new[: count - len(chosen)])
        return list(chosen)


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `random`. Raises ValueError for a space without an arm."""
    return RandomSearch(given.arms, given.seed)
