"""Subscripts of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.traced_functions import check

C = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
KEYS: tuple[Any, ...] = (
    1,
    -1,
    (..., -1),
    (slice(None, None, -1), slice(1, 3)),
    (slice(None), None, 1, slice(None, None, 2)),
    (0, ..., None),
    slice(5, None),
    (..., slice(-1, None, -2), slice(3, 0, -1)),
    (1, 2, 3),
    None,
    (np.int64(1), np.array([0, -1])[1]),
)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_subscripts_are_those_of_numpy(key: Any) -> None:
    check(lambda x: x[key], C)


ROWS, COLUMNS = np.array([1, 0, -1]), np.array([2, 0, 1])
PICKED: tuple[Any, ...] = (
    lambda x, i, j: (x[i, j], x[i[:, None], j], x[i, :, j], x[:, i, j], x[i, 1], x[1, :, j], x[..., i], x[:, None, i]),
    lambda x, i, j: (
        x[[0, 1], [1, 2]],
        x[i, 1:, j],
        x[i, ..., None, j],
        x[0, j],
        x[:, 1, [0, 3]],
        x[np.ix_([0], [2, 0])],
    ),
    lambda x, i, j: (
        x[np.array([True, False])],
        x[:, np.array([True, False, True]), 0],
        x[:, np.arange(3) < 2][..., 0],
    ),
    lambda x, i, j: (x[i - 1][:, []], x[:, i, ..., j]),
)


@pytest.mark.parametrize("function", PICKED)
def test_several_arrays_of_indices(function: Any) -> None:
    check(function, C, ROWS, COLUMNS)


def test_rows_can_be_taken_one_by_one() -> None:
    check(lambda x: [row * 2 for row in x], C)
    check(lambda x: x[0] + len(x), C)
