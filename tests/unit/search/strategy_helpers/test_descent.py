"""Steps from the best measured: one number at a time, from as near as there is anything left."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.contest.models import RandomModel
from metasched.search.rounds.history import History
from metasched.search.rounds.round import Round
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.space_protocol import Candidate, Observation
from metasched.search.strategy_helpers.descent import Descent, DescentConfig, neighbours
from tests.support.toys import Toy, Toys


def descended(arms: Toys, measured: dict[Candidate, float], count: int, config: DescentConfig) -> list[Candidate]:
    history = History(arms)
    history.add([Observation(one, seconds) for one, seconds in measured.items()])
    now = Round(arms, history, RandomModel(0), SeenFeatures(history), 0)
    return Descent(arms, config).choose(now, count)


def test_a_neighbour_has_one_number_changed_or_a_factor_moved_within_a_variable() -> None:
    row = np.array([4, 6, 10])
    found = neighbours(Toy(width=3), row)
    assert len(found) == len({tuple(one) for one in found.tolist()})
    changed = found != row
    assert (8, 3, 10) in {tuple(one) for one in found.tolist()}, "the first two are one variable"
    assert all(changed[changed.sum(axis=1) > 1][:, :2].all(axis=1))
    assert changed[:, 2].any()
    assert not neighbours(Toy(width=2, most=1), np.array([1, 1])).size, "nothing else is legal"


@pytest.mark.parametrize("best", [1, 2])
def test_steps_are_next_to_the_best_whatever_the_model_says_and_each_of_these_has_its_share(best: int) -> None:
    arms = Toys([Toy(width=2)])
    fast, second, slow = (Candidate(0, row) for row in ((2, 3), (40, 7), (20, 50)))
    found = descended(arms, {slow: 3.0, fast: 1.0, second: 2.0}, 8, DescentConfig(best=best, others=0))
    around = [{tuple(one) for one in neighbours(arms[0], np.array(centre.row)).tolist()} for centre in (fast, second)]
    assert len(set(found)) == 8
    assert [sum(one.row in near for one in found) for near in around] == ([8, 0] if best == 1 else [4, 4])


def test_what_is_next_to_the_neighbours_comes_when_these_are_used_up() -> None:
    arms = Toys([Toy(width=2)])
    best = Candidate(0, (10, 12))
    near = {Candidate(0, tuple(one)): 2.0 for one in neighbours(arms[0], np.array(best.row)).tolist()}
    found = descended(arms, {best: 1.0, **near}, 4, DescentConfig(best=1, others=0))
    assert len(found) == 4
    assert not {best, *near} & set(found)


def test_structures_of_which_one_decision_differs_are_next_to_it_too() -> None:
    arms = Toys([Toy(width=2, flavour=n % 7) for n in range(16)])
    found = descended(arms, {Candidate(5, (8, 8)): 1.0}, 64, DescentConfig(best=1, others=6))
    assert {one.arm for one in found} == {4, 5, 6, 7, 1, 9, 13}


def test_nothing_is_next_to_nothing() -> None:
    assert descended(Toys([Toy()]), {}, 4, DescentConfig()) == []


def test_what_is_next_to_the_best_of_all_comes_first_before_others_are_looked_around() -> None:
    arms = Toys([Toy(width=2)])
    history = History(arms)
    history.add([Observation(Candidate(0, row), seconds) for row, seconds in (((2, 3), 1.0), ((40, 7), 2.0))])
    first, whole = (Round(arms, history, RandomModel(0), SeenFeatures(history), 0) for _ in range(2))
    parts = Descent(arms).choose_in_parts(first, 4)
    begun = next(parts)
    near = {tuple(one) for one in neighbours(arms[0], np.array([2, 3])).tolist()}
    assert {one.row for one in begun} <= near
    assert {tuple(row) for row in first.pool.rows(0).tolist()} <= {(2, 3), *near}, "nothing else was scored"
    assert [*begun, *(one for part in parts for one in part)] == Descent(arms).choose(whole, 4)
