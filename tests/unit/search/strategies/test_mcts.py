"""The tree goes down to numbers that no draw had, and makes few structures."""

from __future__ import annotations

import pytest

from metasched.search.space_protocol import Candidate
from metasched.search.strategies.mcts import TreeConfig, TreeSearch, full_path, structure_path
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import PEAK, Knows, Peaked, batches
from tests.support.toys import Toys

SMALL = TreeConfig(rollouts=32)


def tree_search(arms: Toys, model: Knows, seed: int = 0, config: TreeConfig = SMALL) -> TreeSearch:
    return TreeSearch(StrategyInputs(arms, model, seed), config)


@pytest.mark.parametrize("seed", range(3))
def test_known_values_are_kept_and_the_next_variable_is_tried(seed: int) -> None:
    """So it comes to rows that no draw had, and to the best of 65,536 by a few hundred draws a batch."""
    arms, model = Toys([Peaked()]), Knows()
    found = [c.row for batch in batches(tree_search(arms, model, seed), arms, 12) for c in batch]
    assert PEAK in found
    assert len(model.asked - arms[0].drawn) > 100


def test_of_many_structures_it_makes_a_few_and_goes_to_good_ones() -> None:
    """It knows a dozen to begin with, and makes up to `made`, of which those next to good ones are more."""
    arms = Toys([Peaked(abs(n - 170) // 8) for n in range(256)])
    for made in (0, 16):
        strategy = tree_search(arms, Knows(), config=TreeConfig(rollouts=8, made=made, explore=0.0))
        looked = len(strategy.structures.first_structures)
        now = [c.arm for c in strategy.propose(32)]
        assert len(set(now)) <= looked + made
        assert (set(now) <= set(strategy.structures.first_structures)) is (made == 0)
    strategy = tree_search(arms, Knows(), config=TreeConfig(rollouts=8))
    late = [arms[c.arm].flavour for batch in batches(strategy, arms, 12)[6:] for c in batch]
    assert sorted(late)[len(late) // 2] <= 2, "of structures that are up to 21 times as slow"


def test_the_decisions_of_a_candidate_are_those_of_its_structure_and_then_its_numbers() -> None:
    arms = Toys([Peaked() for _ in range(6)])
    assert structure_path(arms, 5) == (("d4", 1), ("d1", 1))
    assert full_path(arms, Candidate(5, PEAK)) == (("d4", 1), ("d1", 1), (3,), (12,), (6,), (8,))
