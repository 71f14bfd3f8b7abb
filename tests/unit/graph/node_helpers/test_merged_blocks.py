"""Rows in order, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.graph.node_helpers import merged_blocks
from tests.support.onnx_models import run
from tests.support.sorted_rows import places_in_order


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of which a test has many, and programs that take no time to compile."""
    monkeypatch.setattr(merged_blocks, "_WHOLE", 8)
    monkeypatch.setattr(merged_blocks, "_BLOCK", 8)


# Blocks that are short at the end, one that is behind the end, pairs of which as many go on as a block has, and a row
# that is no longer than a block.
@pytest.mark.parametrize(
    ("shape", "k", "axis", "largest", "dtype"),
    [
        ((3, 25), 25, 1, True, np.float32),
        ((2, 33), 20, 1, False, np.float32),
        ((2, 17, 3), 5, 1, True, np.int32),
        ((17, 3), 8, 0, False, np.float64),
        ((2, 7), 7, 1, True, np.uint8),
    ],
)
@pytest.mark.usefixtures("_small_blocks")
def test_blocks_are_merged(shape: Any, k: int, axis: int, largest: bool, dtype: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("metasched.graph.node_types.sorting._SORTED_ELEMENT_COST", 0)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, shape).astype(dtype)  # most elements are there several times
    if x.dtype.kind == "f":
        x[rng.random(shape) < 0.1], x[rng.random(shape) < 0.1] = np.nan, -np.inf
    values, places = run("TopK", x, np.array([k]), constants=(1,), outputs=2, largest=int(largest), axis=axis)
    expected = places_in_order(x, k, axis, largest)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))
