"""Chains come to the peak from few draws, go on for an epoch, and end early where nothing changes."""

from __future__ import annotations

from metasched.search.strategies.annealing import Annealing, AnnealingConfig
from metasched.search.strategy_helpers.walk_states import EPOCH
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import Knows, Peaked, batches
from tests.support.toys import Toys


def annealing(arms: Toys, model: Knows, **changes: float) -> Annealing:
    return Annealing(StrategyInputs(arms, model), AnnealingConfig(fresh=16, **changes))  # type: ignore[arg-type]


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
