"""Chains come to the peak from few draws, go on for an epoch, and end early where nothing changes."""

from __future__ import annotations

import pytest

from metasched.search.strategies.annealing import Annealing, AnnealingConfig
from metasched.search.strategy_helpers.walk_states import EPOCH
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import PEAK, Knows, Peaked, batches
from tests.support.toys import Toys


def annealing(arms: Toys, model: Knows, seed: int = 0, **changes: float) -> Annealing:
    return Annealing(StrategyInputs(arms, model, seed), AnnealingConfig(fresh=16, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_chains_walk_to_rows_that_were_never_drawn_and_to_the_best(seed: int) -> None:
    arms, model = Toys([Peaked()]), Knows()
    found = [c.row for batch in batches(annealing(arms, model, seed), arms, 4) for c in batch]
    assert PEAK in found
    assert len(model.asked - arms[0].drawn) > 500


def test_a_hot_walk_wanders_and_a_cold_one_climbs() -> None:
    """The temperature falls from `hot`: at 0 nothing worse is ever accepted, so less of the space is seen."""
    means = []
    for hot in (0.0, 50.0):
        arms, model = Toys([Peaked()]), Knows()
        annealing(arms, model, hot=hot, patience=1000).propose(8)
        times = [arms[0].seconds(row) for row in model.asked - arms[0].drawn]
        means.append(sum(times) / len(times))
    assert means[0] < means[1] / 2


def test_a_walk_ends_where_the_best_rows_have_not_changed_for_a_while() -> None:
    scored = {}
    for patience in (4, 1000):
        strategy = annealing(Toys([Peaked()]), Knows(), steps=400, patience=patience)
        strategy.propose(8)
        scored[patience] = strategy.scored
    assert scored[4] < scored[1000] / 2


def test_chains_go_on_where_they_stopped_and_begin_anew_after_an_epoch() -> None:
    """With one step a batch, what is looked at comes closer to the peak with every batch of an epoch."""
    arms, model = Toys([Peaked()]), Knows()
    strategy = annealing(arms, model, steps=1, hot=0.0, elite=0, explore=0.0)
    kept = []
    for _ in range(2 * EPOCH):
        batches(strategy, arms, 1)
        rows = strategy._kept._after[strategy.lengths[-2]][0]
        kept.append(sum(arms[0].seconds(tuple(row)) for row in rows.tolist()))
    assert kept[:EPOCH] == sorted(kept[:EPOCH], reverse=True)
    assert kept[EPOCH] > kept[EPOCH - 1]


def test_chains_change_to_the_better_structure() -> None:
    arms = Toys([Peaked(3), Peaked()])
    found = [c.arm for batch in batches(annealing(arms, Knows()), arms, 4) for c in batch]
    assert found[8:].count(1) > len(found[8:]) * 0.8
