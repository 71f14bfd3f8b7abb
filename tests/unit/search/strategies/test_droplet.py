"""Every batch but the first is next to the three best measured, and so it descends to the peak by single steps."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.search.space_protocol import Observation
from metasched.search.strategies.droplet import Droplet, DropletConfig
from metasched.search.strategy_helpers.descent import DescentConfig, neighbours
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import PEAK, Knows, Peaked, batches
from tests.support.toys import Toys


def droplet(arms: Toys, model: Knows, seed: int = 0, config: DropletConfig | None = None) -> Droplet:
    return Droplet(StrategyInputs(arms, model, seed), config or DropletConfig(fresh=16))


def around(arms: Toys, rows: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {tuple(near) for row in rows for near in neighbours(arms[0], np.array(row)).tolist()}


@pytest.mark.parametrize("seed", range(3))
def test_it_descends_to_the_best_by_rows_that_were_never_drawn(seed: int) -> None:
    arms, model = Toys([Peaked()]), Knows()
    found = [c.row for batch in batches(droplet(arms, model, seed), arms, 16) for c in batch]
    assert PEAK in found
    assert len(set(found) - arms[0].drawn) > 60


def test_the_first_batch_is_what_the_model_scores_highest_among_draws() -> None:
    arms, model = Toys([Peaked()]), Knows()
    found = [c.row for c in droplet(arms, model).propose(4)]
    assert set(found) <= arms[0].drawn
    assert arms[0].seconds(found[0]) == min(map(arms[0].seconds, model.asked))


def test_a_batch_is_next_to_the_best_that_was_measured() -> None:
    """Whatever the model says: here what is fast was measured far from the peak."""
    arms = Toys([Peaked()])
    strategy = droplet(arms, Knows(), config=DropletConfig(DescentConfig(best=1), fresh=16))
    first = strategy.propose(8)
    strategy.observe([Observation(c, 1.0 if n == 5 else 2.0) for n, c in enumerate(first)])
    assert {c.row for c in strategy.propose(8)} <= around(arms, [first[5].row])


def test_one_whose_surroundings_were_all_tried_gives_way_to_others() -> None:
    arms = Toys([Peaked()])
    strategy = droplet(arms, Knows(), config=DropletConfig(DescentConfig(best=1, steps=1), fresh=16))
    best = strategy.propose(1)
    strategy.observe([Observation(best[0], 1e-9)])
    near = around(arms, [best[0].row])
    tried = [c.row for c in strategy.propose(len(near) + 8)]
    assert set(tried[: len(near)]) == near
    assert len(set(tried)) == len(near) + 8
