"""The share of pairs that models rank right, of all codes and of those at the top."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.contest.described import Table
from benchmarks.contest.order import order, ranked_right
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import CostModel


class _Oracle:
    """Knows the times of a table; `sign` -1 ranks all pairs wrong."""

    def __init__(self, table: Table, sign: int = 1) -> None:
        self._seconds = np.concatenate([one.seconds for one in table.structures])
        self._sign = sign

    def fit(self, own: TaskTimes) -> None:
        raise AssertionError("nothing is measured")

    def predict(self, features: np.ndarray) -> np.ndarray:
        return -self._sign * np.log2(self._seconds)


def test_pairs_are_ranked_right_by_who_knows_the_times_and_in_part_by_the_roofline(table: Table) -> None:
    assert set(ranked_right(table, _Oracle(table)).values()) == {1.0}
    assert set(ranked_right(table, _Oracle(table, -1)).values()) == {0.0}
    right = ranked_right(table, CostModel())
    assert all(0.5 < share < 1.0 for share in right.values())


def test_a_line_has_the_means_over_tables(table: Table) -> None:
    (line,) = order([table, table], {"both": [_Oracle(table), _Oracle(table, -1)]})
    assert line["case"] == "pairs ranked right: both"
    assert line["all"] == line["fastest tenth"] == pytest.approx(0.5)
