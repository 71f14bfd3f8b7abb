"""Running sums against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import run


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_sums(reverse: int, exclusive: int) -> None:
    x = np.float32([1, 2, 4, 8])
    np.testing.assert_array_equal(summed(x, 0, reverse, exclusive), by_numpy(x, 0, reverse, exclusive))


def summed(x: np.ndarray, axis: int, reverse: int, exclusive: int) -> np.ndarray:
    return run("CumSum", x, np.array(axis, np.int64), constants=(1,), reverse=reverse, exclusive=exclusive)


def by_numpy(x: np.ndarray, axis: int, reverse: int, exclusive: int) -> np.ndarray:
    whole = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    return (whole - x if exclusive else whole).astype(x.dtype)
