"""Features are worked out once for a row that is asked for again soon, and are those that it has in any case."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.features import Features
from metasched.search.arms.recent_features import RecentFeatures
from metasched.search.space_protocol import Rows


class Computed:
    """Features that are the row times ten; `rows` are those that were worked out."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def __call__(self, rows: Rows) -> Features:
        self.rows += rows.tolist()
        return (rows * 10).astype(np.float32)


@pytest.fixture
def compute() -> Computed:
    return Computed()


ROWS = np.array([[1, 2], [3, 4], [1, 2], [5, 6]], dtype=np.int64)


def test_only_what_is_not_known_is_worked_out(compute: Computed) -> None:
    recent = RecentFeatures()
    assert np.array_equal(recent.get_or_compute("arm", ROWS[:2], compute), ROWS[:2] * 10)
    assert np.array_equal(recent.get_or_compute("arm", ROWS, compute), ROWS * 10)
    assert np.array_equal(recent.get_or_compute("arm", ROWS[::-1], compute), ROWS[::-1] * 10)
    assert compute.rows == [[1, 2], [3, 4], [5, 6]]


def test_arms_have_features_of_their_own(compute: Computed) -> None:
    recent = RecentFeatures()
    recent.get_or_compute("one", ROWS[:1], compute)
    recent.get_or_compute("other", ROWS[:1], compute)
    assert compute.rows == [[1, 2], [1, 2]]


def test_the_oldest_are_forgotten(compute: Computed) -> None:
    recent = RecentFeatures(most=2)
    recent.get_or_compute("arm", ROWS[:2], compute)
    assert np.array_equal(recent.get_or_compute("arm", ROWS[[1, 3]], compute), ROWS[[1, 3]] * 10)
    recent.get_or_compute("arm", ROWS[:1], compute)
    assert compute.rows == [[1, 2], [3, 4], [5, 6], [1, 2]]
    many = np.arange(10, dtype=np.int64).reshape(5, 2)
    assert np.array_equal(recent.get_or_compute("arm", many, compute), many * 10)


def test_no_rows(compute: Computed) -> None:
    assert RecentFeatures().get_or_compute("arm", ROWS[:0], compute).shape == (0, 2)


def test_nobody_changes_what_is_kept(compute: Computed) -> None:
    features = RecentFeatures().get_or_compute("arm", ROWS, compute)
    with pytest.raises(ValueError, match="read-only"):
        features[0] = 0
