"""What models learn from: times as logarithms, failures and lower bounds among them."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.features import NAMES
from metasched.cost.learning.task_times import FAILURE_FACTOR, TaskTimes


def zeros(count: int) -> np.ndarray:
    return np.zeros((count, len(NAMES)), np.float32)


def test_a_failure_is_a_time_longer_than_all_others() -> None:
    times = TaskTimes(zeros(3), np.array([2.0, np.inf, 8.0]))
    assert times.log_seconds.tolist() == [1.0, 3.0 + np.log2(FAILURE_FACTOR), 3.0]


def test_of_failures_alone_no_order_is_known() -> None:
    assert TaskTimes(zeros(2), np.full(2, np.inf)).log_seconds.tolist() == [0.0, 0.0]
    assert TaskTimes(zeros(0), np.empty(0)).log_seconds.shape == (0,)


def test_some_of_the_candidates_keep_their_bounds() -> None:
    times = TaskTimes(zeros(3), np.array([1.0, 2.0, 3.0]), np.array([False, True, False]))
    assert times.select(np.array([1, 2])).bounds.tolist() == [True, False]
    assert TaskTimes(zeros(2), np.ones(2)).bounds.tolist() == [False, False]


@pytest.mark.parametrize(("features", "times", "bounds"), [(3, 2, 2), (2, 2, 1), (2, 3, 3)])
def test_shapes_that_do_not_go_together_are_refused(features: int, times: int, bounds: int) -> None:
    with pytest.raises(ValueError, match="do not go with"):
        TaskTimes(zeros(features), np.ones(times), np.zeros(bounds, bool))
