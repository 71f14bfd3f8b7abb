"""The batch is of the chains' last positions: near the peak where it is cold, anywhere where it is hot."""

from __future__ import annotations

from metasched.search.strategies.metropolis import Metropolis, MetropolisConfig
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import Knows, Peaked
from tests.support.toys import Toys


def metropolis(arms: Toys, model: Knows, **changes: float) -> Metropolis:
    return Metropolis(StrategyInputs(arms, model), MetropolisConfig(fresh=16, **changes))  # type: ignore[arg-type]


def test_the_colder_the_posterior_the_closer_its_sample_is_to_the_peak() -> None:
    """A batch is of where chains ended, not of the best rows that they passed."""
    times = []
    for temperature in (0.05, 1.0, 50.0):
        arms = Toys([Peaked()])
        strategy = metropolis(arms, Knows(), hot=temperature, cold=temperature, steps=64, chains=24)
        found = strategy.propose(24)
        times.append(sum(arms[0].seconds(c.row) for c in found))
    assert times[0] < times[1] < times[2]
