"""Draws from the prior, whatever a model says and whatever was measured."""

from __future__ import annotations

from metasched.search.space_protocol import Observation
from metasched.search.strategies.random import strategy
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import MOST, PEAK, Knows, Peaked, batches
from tests.support.toys import Toys


def test_the_model_is_never_asked_and_times_change_nothing() -> None:
    arms, model = Toys([Peaked(), Peaked(5)]), Knows()
    one, other = (strategy(StrategyInputs(arms, model)) for _ in range(2))
    first = one.propose(8)
    one.observe([Observation(c, 1.0 + n) for n, c in enumerate(first)])
    other.observe([Observation(c, 9.0 - n) for n, c in enumerate(first)])
    assert one.propose(8) == other.propose(8)
    assert not model.asked


def test_all_of_the_prior_is_drawn_evenly() -> None:
    """Each structure, each value of each variable; and not the peak more than another row."""
    arms = Toys([Peaked(n) for n in range(4)])
    found = [c for batch in batches(strategy(StrategyInputs(arms, Knows())), arms, 8, 100) for c in batch]
    assert all(150 < sum(c.arm == n for c in found) < 250 for n in range(4))
    for column in range(len(PEAK)):
        values = [c.row[column] for c in found]
        assert all(20 < values.count(value) < 90 for value in range(1, MOST + 1))


def test_every_candidate_is_one_that_was_drawn() -> None:
    arms = Toys([Peaked()])
    assert {c.row for c in strategy(StrategyInputs(arms, Knows())).propose(16)} <= arms[0].drawn
