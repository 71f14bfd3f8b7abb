"""Chains go where scores are high, and the less so the hotter they are."""

from __future__ import annotations

from unittest.mock import Mock, call

import numpy as np
import pytest

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.search.rounds.history import History
from metasched.search.rounds.round import Round
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.strategies.annealing import Annealing, AnnealingConfig
from metasched.search.strategies.metropolis import Metropolis, MetropolisConfig
from metasched.search.strategy_helpers.chains import Chains, count_chains, gather_chains, join_chains, walk_chains
from metasched.search.strategy_registry import MakeStrategy, StrategyInputs
from tests.support.peaks import PEAK, Knows, Peaked, batches
from tests.support.toys import Toy, Toys


class Known:
    """Knows how far rows of toys are from 8 in every column: -(distance in log2), less their flavour."""

    def fit(self, own: TaskTimes) -> None: ...

    def predict(self, features: Features) -> Array:
        found: Array = -np.abs(features[:, :4] - 3.0).sum(axis=1).astype(np.float64) - features[:, 4]
        return found


def begun(arms: Toys) -> Round:
    history = History(arms)
    return Round(arms, history, Known(), SeenFeatures(history), seed=0)


def scores(now: Round, chains: Chains) -> Array:
    return np.concatenate(list(now.score(chains).values()))


def test_cold_chains_never_get_worse_and_hot_ones_wander() -> None:
    arms = Toys([Toy()])
    rows = np.full((64, 4), 8)
    rows[32:] = 1
    cold, hot = (begun(arms) for _ in range(2))
    still = scores(cold, walk_chains(cold, {0: rows}, [0.0] * 24))
    wild = scores(hot, walk_chains(hot, {0: rows}, [100.0] * 24))
    assert (still[:32] == 0).all()
    assert (still[32:] > -10).all()  # they began at -12
    assert still[32:].mean() > -4
    assert (wild[:32] < 0).all()


def test_chains_change_to_better_arms_and_none_is_lost() -> None:
    arms = Toys([Toy(flavour=5), Toy(), Toy(flavour=3)])
    now = begun(arms)
    begin = {n: np.full((20, 4), 8) for n in range(3)}
    after = walk_chains(now, begin, [0.01] * 80)
    assert count_chains(after) == 60
    assert len(after[1]) > 40
    assert set(now.pool.arms) == {0, 1, 2}


def test_a_walk_ends_when_it_is_told_to() -> None:
    arms = Toys([Toy()])
    now, is_over = begun(arms), Mock(side_effect=lambda step: step == 3)
    walk_chains(now, {0: np.ones((4, 4), np.int64)}, [1.0] * 50, is_over)
    assert is_over.call_args_list == [call(1), call(2), call(3)]


def test_illegal_changes_are_not_accepted() -> None:
    arms = Toys([Toy(most=4)])
    now = begun(arms)
    after = walk_chains(now, {0: np.ones((32, 4), np.int64)}, [100.0] * 10)
    assert (after[0].prod(axis=1) <= 4).all()


def test_chains_begin_at_good_rows() -> None:
    arms = Toys([Toy(), Toy(flavour=40)])
    now = begun(arms)
    assert gather_chains(now, [0, 1], 8) == {}
    now.add({n: np.unique(arms[n].sample(now.rng, 200), axis=0) for n in (0, 1)})
    begin = gather_chains(now, [0, 1], 64)
    assert count_chains(begin) == 64
    assert len(begin[0]) > 50
    assert scores(now, begin).mean() > now.pool.scores(0).mean()


STRATEGIES: dict[str, MakeStrategy] = {
    "annealing": lambda given: Annealing(given, AnnealingConfig(fresh=16)),
    "metropolis": lambda given: Metropolis(given, MetropolisConfig(fresh=16)),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_chains_of_strategies_walk_to_rows_that_were_never_drawn_and_to_the_best(name: str, seed: int) -> None:
    arms, model = Toys([Peaked()]), Knows()
    strategy = STRATEGIES[name](StrategyInputs(arms, model, seed))
    found = [c.row for batch in batches(strategy, arms, 4) for c in batch]
    assert PEAK in found
    assert len(model.asked - arms[0].drawn) > 500


@pytest.mark.parametrize("name", STRATEGIES)
def test_chains_of_strategies_change_to_the_better_structure(name: str) -> None:
    arms = Toys([Peaked(3), Peaked()])
    found = [c.arm for batch in batches(STRATEGIES[name](StrategyInputs(arms, Knows())), arms, 4) for c in batch]
    assert found[8:].count(1) > len(found[8:]) * 0.8


def test_joined_chains_are_all_of_both() -> None:
    one, two = np.ones((2, 4), np.int64), np.ones((3, 4), np.int64) * 2
    assert {n: len(rows) for n, rows in join_chains({0: one, 1: one}, {1: two, 2: two}).items()} == {0: 2, 1: 5, 2: 3}
