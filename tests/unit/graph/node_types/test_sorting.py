"""The largest elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.onnx_models import run


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_the_largest_elements_of_each_row() -> None:
    x = np.float32([[3, 1, np.nan, 3], [0, -1, 2, 5]])
    values, places = run("TopK", x, ints(3), constants=(1,), outputs=2)
    np.testing.assert_array_equal(values, [[np.nan, 3, 3], [5, 2, 0]])
    np.testing.assert_array_equal(places, [[2, 0, 3], [3, 2, 0]])
    values, _ = run("TopK", x, ints(2), constants=(1,), outputs=2, largest=0)
    np.testing.assert_array_equal(values, [[1, 3], [-1, 0]])
