"""The batch is of the chains' last positions: near the peak where it is cold, anywhere where it is hot."""

from __future__ import annotations

import pytest

from metasched.search.strategies.metropolis import Metropolis, MetropolisConfig
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import PEAK, Knows, Peaked, batches
from tests.support.toys import Toys


def metropolis(arms: Toys, model: Knows, seed: int = 0, **changes: float) -> Metropolis:
    return Metropolis(StrategyInputs(arms, model, seed), MetropolisConfig(fresh=16, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_chains_walk_to_rows_that_were_never_drawn_and_to_the_best(seed: int) -> None:
    arms, model = Toys([Peaked()]), Knows()
    found = [c.row for batch in batches(metropolis(arms, model, seed), arms, 4) for c in batch]
    assert PEAK in found
    assert len(model.asked - arms[0].drawn) > 500


def test_the_colder_the_posterior_the_closer_its_sample_is_to_the_peak() -> None:
    """A batch is of where chains ended, not of the best rows that they passed."""
    times = []
    for temperature in (0.05, 1.0, 50.0):
        arms = Toys([Peaked()])
        strategy = metropolis(arms, Knows(), hot=temperature, cold=temperature, steps=64, chains=24)
        found = strategy.propose(24)
        times.append(sum(arms[0].seconds(c.row) for c in found))
    assert times[0] < times[1] < times[2]


def test_chains_change_to_the_better_structure() -> None:
    arms = Toys([Peaked(3), Peaked()])
    found = [c.arm for batch in batches(metropolis(arms, Knows()), arms, 4) for c in batch]
    assert found[8:].count(1) > len(found[8:]) * 0.8
