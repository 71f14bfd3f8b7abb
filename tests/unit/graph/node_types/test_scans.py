"""Running sums and products against NumPy, in one program and in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.node_types import scans
from tests.support.onnx_models import run


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_sums(reverse: int, exclusive: int) -> None:
    x = np.float32([1, 2, 4, 8])
    np.testing.assert_array_equal(summed(x, 0, reverse, exclusive), by_numpy(x, 0, reverse, exclusive))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("extent", [12, 13, 64])
def test_in_blocks_of_blocks(monkeypatch: pytest.MonkeyPatch, reverse: int, exclusive: int, extent: int) -> None:
    monkeypatch.setattr(scans, "_AT_ONCE", 4)
    monkeypatch.setattr(scans, "_BLOCK", 3)
    x = np.random.default_rng(0).integers(-9, 9, (2, extent, 2))
    np.testing.assert_array_equal(summed(x, 1, reverse, exclusive), by_numpy(x, 1, reverse, exclusive))
    half = x.astype(np.float16)
    np.testing.assert_array_equal(summed(half, -2, reverse, exclusive), by_numpy(half, 1, reverse, exclusive))


def summed(x: np.ndarray, axis: int, reverse: int, exclusive: int) -> np.ndarray:
    return run("CumSum", x, np.array(axis, np.int64), constants=(1,), reverse=reverse, exclusive=exclusive)


def by_numpy(x: np.ndarray, axis: int, reverse: int, exclusive: int) -> np.ndarray:
    whole = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
    return (whole - x if exclusive else whole).astype(x.dtype)


def test_long_rows_are_not_quadratic() -> None:
    """What a hundred thousand elements take fits in the reference's patience."""
    x = np.ones(100_000, np.int64)
    np.testing.assert_array_equal(summed(x, 0, 0, 0), np.arange(1, x.size + 1))
