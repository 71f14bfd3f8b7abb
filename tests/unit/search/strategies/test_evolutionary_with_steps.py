"""Half of a batch are steps from the best measured; the rest is bred."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.search.space_protocol import Candidate, Observation
from metasched.search.strategies.evolutionary_with_steps import SteppingEvolution, StepsConfig
from metasched.search.strategy_helpers.descent import DescentConfig, neighbours
from metasched.search.strategy_registry import StrategyInputs
from tests.support.toys import Toy, Toys

BEST = Candidate(0, (3, 48, 2))


@pytest.mark.parametrize(("share", "steps"), [(0.0, 0), (0.5, 4), (1.0, 8)])
def test_its_share_of_a_batch_is_next_to_the_best(share: float, steps: int) -> None:
    """The model expects little of what is around the best here: it was measured faster than its features tell."""
    arms = Toys([Toy(width=3)])
    config = StepsConfig(share, DescentConfig(best=1, others=0))
    strategy = SteppingEvolution(StrategyInputs(arms, CostModel(0)), config)
    first = strategy.propose(8)
    strategy.observe([Observation(BEST, 1e-6), *(Observation(one, arms[0].seconds(one.row)) for one in first)])
    near = {tuple(one) for one in neighbours(arms[0], np.array(BEST.row)).tolist()}
    found = strategy.propose(8)
    assert len(set(found)) == 8
    assert sum(one.row in near for one in found[8 - steps :]) == steps
