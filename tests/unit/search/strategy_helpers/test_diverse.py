"""A diverse batch covers the values of variables."""

from __future__ import annotations

import numpy as np

from metasched.cost.model import CostModel
from metasched.search.rounds.history import History
from metasched.search.rounds.round import Round
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.space_protocol import Candidate
from metasched.search.strategy_helpers import diverse as module
from metasched.search.strategy_helpers.diverse import components, diverse
from tests.support.toys import Toy, Toys


def with_rows(rows: list[list[int]], scores: list[float]) -> Round:
    arms = Toys([Toy()])
    history = History(arms)
    now = Round(arms, history, CostModel(), SeenFeatures(history), seed=0)
    now.add({0: np.array(rows)})
    now.pool.scores(0)[:] = scores
    return now


def test_what_is_new_counts_and_scores_count() -> None:
    """Of rows that are alike the best is taken first, then one that shares nothing with it, before a better twin."""
    now = with_rows([[8, 8, 8, 8], [8, 8, 8, 4], [2, 4, 1, 2], [9, 9, 9, 9]], [1.0, 0.99, 0.95, -1.0])
    assert [c.row for c in diverse(now, 2, [])] == [(8, 8, 8, 8), (2, 4, 1, 2)]
    assert [c.row for c in diverse(now, 1, [Candidate(0, (2, 4, 1, 2))])] == [(8, 8, 8, 8)]


def test_only_the_best_few_are_chosen_from() -> None:
    rows = [[8, 8, 8, n] for n in range(1, 9)] + [[3, 5, 7, 11]]
    now = with_rows(rows, [1.0 - n / 100 for n in range(8)] + [0.5])
    assert Candidate(0, (3, 5, 7, 11)) not in diverse(now, 8 // module.CANDIDATES, [])


def test_all_are_chosen_in_the_end() -> None:
    now = with_rows([[8, 8, 8, n] for n in range(1, 7)], [1.0] * 6)
    assert len(set(diverse(now, 10, []))) == 6
    assert diverse(now, 0, []) == []


def test_components_are_the_structure_and_each_variable() -> None:
    arms = Toys([Toy(), Toy(flavour=1)])
    one, two = (components(arms, Candidate(arm, (1, 2, 3, 4))) for arm in (0, 1))
    assert len(one) == 4  # the structure, and three variables, of which the first has two numbers
    assert not one & two
    assert len(one & components(arms, Candidate(0, (1, 5, 3, 4)))) == 3
