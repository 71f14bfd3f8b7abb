"""Whether searching is worth it: statistics over seeds, on a function that costs nothing to measure."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from metasched.cost.features import NAMES
from metasched.cost.model import CostModel
from metasched.search.space_protocol import Observation, Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategies.random import RandomSearch
from metasched.search.strategy_registry import STRATEGIES, StrategyInputs
from tests.support.toys import Toys

SEEDS = range(8)
TRIALS, BATCH = 64, 8
EFFICIENCY = NAMES.index("all.efficiency")


class Valley:
    """Six tile sizes whose logarithms have to meet a target together; a fifth of the rows are illegal."""

    name = "valley"
    columns = tuple("abcdef")
    groups = ((0, 1), (2, 3), (4,), (5,))

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.integers(1, 65, (count, 6))

    def mutate(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        group = rng.integers(4, size=len(rows))
        fresh = self.sample(rng, len(rows))
        out = rows.copy()
        for n, columns in enumerate(self.groups):
            for column in columns:
                np.copyto(out[:, column], fresh[:, column], where=group == n)
        return out

    def repair(self, rows: np.ndarray) -> np.ndarray:
        return np.clip(rows, 1, 64)

    def mask(self, rows: np.ndarray) -> np.ndarray:
        return (rows[:, 0] * rows[:, 1] + rows[:, 2]) % 5 != 0

    def features(self, rows: np.ndarray) -> np.ndarray:
        out = np.zeros((len(rows), len(NAMES)), np.float32)
        out[:, :6] = np.log2(rows)
        out[:, 6] = np.log2(rows[:, 0] * rows[:, 1])
        out[:, 7] = np.log2(rows[:, 2] * rows[:, 3])
        out[:, EFFICIENCY] = 0.1
        return out

    def seconds(self, row: tuple[int, ...]) -> float:
        a, b, c, d, e, f = np.log2(np.array(row))
        away = (a + b - 5) ** 2 + (c + d - 6) ** 2 + (e - 4) ** 2 + abs(a - c) + abs(f - 2)
        return float(1e-3 * (1 + 0.3 * away))


def best_after(strategy: Strategy, arm: Valley, trials: int = TRIALS) -> float:
    best = float("inf")
    for _ in range(trials // BATCH):
        results = [Observation(c, arm.seconds(c.row)) for c in strategy.propose(BATCH)]
        best = min([best, *(r.seconds for r in results if r.seconds is not None)])
        strategy.observe(results)
    return best


def test_evolution_with_a_model_beats_random_search_at_equal_trials() -> None:
    arm = Valley()
    config = EvolutionConfig(population=256, generations=4)
    arms = Toys([arm])
    evolved = [best_after(Evolution(arms, CostModel(seed), seed, config), arm) for seed in SEEDS]
    random = [best_after(RandomSearch(arms, seed), arm) for seed in SEEDS]
    assert np.median(evolved) < 0.8 * np.median(random)
    assert sum(e < r for e, r in zip(evolved, random, strict=True)) >= 7


# By how much each beats random search at 40 trials, at least: the ratio of geometric means over seeds.
FEW, OF_SEEDS = 40, range(2)
BASELINE = "random"


@cache
def mean_of(name: str) -> float:
    found = []
    for seed in OF_SEEDS:
        arms = Toys([Valley()])
        found.append(best_after(STRATEGIES.get(name)(StrategyInputs(arms, CostModel(seed), seed)), arms[0], FEW))
    return float(np.exp(np.log(found).mean()))


@pytest.mark.parametrize("name", [name for name in STRATEGIES.names() if name != BASELINE])
def test_every_strategy_beats_random_search_at_equal_trials(name: str) -> None:
    assert mean_of(name) < 0.8 * mean_of(BASELINE)
