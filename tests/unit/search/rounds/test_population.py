"""Array operations on rows."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metasched.search.rounds.population import crossover, distinct, draw_parents, keys
from metasched.search.rounds.selection import Pool, choose_unlike
from metasched.search.space_protocol import Candidate
from tests.support.toys import Toy

NOTHING = np.empty(0, np.uint64)


def test_keys_tell_rows_apart() -> None:
    rows = np.array(list(itertools.product(range(1, 17), repeat=4)))
    assert len(np.unique(keys(rows))) == len(rows)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20), st.integers(0, 5))
def test_distinct_keeps_the_first_of_each_unknown_row(pairs: list[tuple[int, int]], known: int) -> None:
    rows = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)
    before = rows[:known]
    expected = [p for p in dict.fromkeys(pairs) if p not in pairs[:known]]
    assert [tuple(r) for r in distinct(rows, keys(before))] == expected


def test_crossover_keeps_a_variables_columns_together() -> None:
    arm = Toy()
    a, b = np.full((200, 4), 1), np.full((200, 4), 2)
    child = crossover(np.random.default_rng(0), arm, a, b)
    assert (child[:, 0] == child[:, 1]).all()
    assert {tuple(r) for r in child[:, 1:]} == set(itertools.product((1, 2), repeat=3))


def test_better_parents_are_drawn_more_often() -> None:
    scores = np.linspace(0, 1, 100)
    drawn = draw_parents(np.random.default_rng(0), scores, 10_000)
    assert (drawn >= 75).mean() > 0.8
    assert np.array_equal(drawn, draw_parents(np.random.default_rng(0), scores * 1000 - 5, 10_000))


def test_a_batch_is_spread_out() -> None:
    pool = Pool([NOTHING].__getitem__)
    twins = np.array([[8, 8, 8, n] for n in range(1, 9)])
    other = np.array([[4, 4, 4, 4], [1, 2, 3, 4]])
    pool.add(0, np.concatenate([twins, other]), np.array([1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.98, 0.1]))
    chosen = choose_unlike(pool, 2, [])
    assert chosen[0].row == (8, 8, 8, 1)
    assert choose_unlike(pool, 3, [])[:2] == chosen
    assert chosen[1].row == (4, 4, 4, 4)


def test_what_was_measured_or_taken_is_not_chosen() -> None:
    rows = np.array([[1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]])
    pool = Pool([keys(rows[:1])].__getitem__)
    pool.add(0, rows, np.array([3.0, 2.0, 1.0]))
    assert choose_unlike(pool, 5, [Candidate(0, (2, 2, 2, 2))]) == [Candidate(0, (3, 3, 3, 3))]
    best = pool.best_unmeasured(0)
    assert best is not None
    assert best[1].row == (2, 2, 2, 2)
