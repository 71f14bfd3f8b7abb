"""Metrics on numbers that one can check by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from metasched.cost.learning.ranking import (
    best_of_top,
    calibration,
    fastest_quarter,
    favourites,
    judge,
    pair_accuracy,
    recall,
)

TIMES = np.array([4.0, 1.0, 3.0, 2.0])


def test_who_ranks_as_the_times_do_has_every_pair_right() -> None:
    assert pair_accuracy(-TIMES, TIMES) == 1.0
    assert pair_accuracy(TIMES, TIMES) == 0.0


def test_only_the_order_of_scores_counts() -> None:
    assert pair_accuracy(-np.exp(TIMES), TIMES) == 1.0


def test_one_pair_of_six_may_be_wrong() -> None:
    assert pair_accuracy(np.array([1.0, 3.0, 2.0, 4.0]), TIMES) == pytest.approx(5 / 6)


def test_a_tie_is_half_right() -> None:
    assert pair_accuracy(np.zeros(4), TIMES) == 0.5
    assert pair_accuracy(np.array([0.0, 1.0, 0.0, 1.0]), TIMES) == pytest.approx((4 + 2 * 0.5) / 6)


def test_pairs_of_nearly_equal_times_are_not_asked_for() -> None:
    score = np.array([1.0, 2.0, 0.0])
    assert pair_accuracy(score, np.array([1.0, 1.019, 2.0])) == 1.0
    assert pair_accuracy(score, np.array([1.0, 1.021, 2.0])) == pytest.approx(2 / 3)
    assert math.isnan(pair_accuracy(np.zeros(2), np.array([1.0, 1.01])))


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 4 scores are not finite"):
        pair_accuracy(np.array([0.0, np.nan, 1.0, 2.0]), TIMES)
    with pytest.raises(ValueError, match="not finite"):
        favourites(np.array([0.0, np.inf]))


def test_the_fastest_quarter_has_two_at_least() -> None:
    assert fastest_quarter(TIMES).tolist() == [1, 3]
    assert fastest_quarter(np.arange(16.0)[::-1]).tolist() == [15, 14, 13, 12]


def test_favourites_come_by_score() -> None:
    assert favourites(np.array([0.1, 0.9, 0.5])).tolist() == [1, 2, 0]


def test_tied_favourites_come_in_an_order_of_the_seed() -> None:
    score = np.zeros(50)
    assert favourites(score, 1).tolist() == favourites(score, 1).tolist()
    assert favourites(score, 1).tolist() != favourites(score, 2).tolist()
    assert favourites(score).tolist() != list(range(50))
    assert sorted(favourites(score)) == list(range(50))


def test_of_the_favourites_the_best_counts() -> None:
    order = favourites(np.array([4.0, 1.0, 3.0, 2.0]))  # the slowest first
    assert [best_of_top(order, TIMES, k) for k in (1, 2, 3, 4, 9)] == [4.0, 3.0, 2.0, 1.0, 1.0]


def test_recall_is_the_share_of_the_fastest_among_the_favourites() -> None:
    times = np.arange(1.0, 101.0)
    assert recall(favourites(-times), times) == 1.0
    assert recall(favourites(times), times) == 0.0
    half = -times.copy()
    half[:5] = -1000.0  # five of the ten fastest are thought to be the slowest
    assert recall(favourites(half), times) == 0.5


def test_calibration_is_in_powers_of_two() -> None:
    times = np.array([1.0, 2.0, 4.0])
    assert calibration(4 * times, times) == (2.0, 0.0)
    error = np.random.default_rng(0).normal(1.0, 0.5, 20_000)
    bias, spread = calibration(np.exp2(error), np.ones(20_000))
    assert bias == pytest.approx(1.0, abs=0.02)
    assert spread == pytest.approx(0.5, abs=0.02)


def test_a_judgement_has_all_of_it() -> None:
    times = np.arange(1.0, 65.0)
    perfect = judge("task", -times, times, times)
    assert (perfect.pairs, perfect.fast_pairs, perfect.recall) == (1.0, 1.0, 1.0)
    assert perfect.best_of_top == {1: 1.0, 5: 1.0, 8: 1.0, 16: 1.0}
    assert (perfect.bias, perfect.spread) == (0.0, 0.0)
    reversed_ = judge("task", times, None, times, known=0.5)
    assert (reversed_.pairs, reversed_.fast_pairs, reversed_.recall) == (0.0, 0.0, 0.0)
    assert reversed_.best_of_top == {1: 64.0, 5: 60.0, 8: 57.0, 16: 49.0}
    assert (reversed_.best, reversed_.known) == (1.0, 0.5)
    assert math.isnan(reversed_.bias)


def test_what_is_known_is_never_slower_than_the_best_of_the_pool() -> None:
    assert judge("task", -TIMES, None, TIMES, known=2.0).known == 1.0


def test_scores_and_times_go_together() -> None:
    with pytest.raises(ValueError, match="task: 3 scores for 4 times"):
        judge("task", np.zeros(3), None, TIMES)
    with pytest.raises(ValueError, match="two at least"):
        judge("task", np.zeros(1), None, np.ones(1))
