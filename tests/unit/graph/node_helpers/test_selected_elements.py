"""The first elements of long rows, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import metasched as ms
from metasched.graph.node_helpers.selected_elements import cheapest_levels
from tests.support.onnx_models import model, node, run, value
from tests.support.sorted_rows import places_in_order


@pytest.fixture
def _always_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any length are looked at in blocks where that is possible, so that programs take no time to compile."""
    monkeypatch.setattr("metasched.graph.node_types.sorting._SORTED_ELEMENT_COST", 1 << 40)
    monkeypatch.setattr("metasched.graph.node_types.sorting.OF_A_KERNEL", 1 << 40)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("shape", "k", "axis", "dtype"),
    [
        ((3, 37), 3, 1, np.float32),
        ((45, 2), 7, 0, np.float64),
        ((2, 21, 3), 2, 1, np.int32),
        ((2, 40), 4, 1, np.uint8),
        ((2, 29), 2, 1, ml_dtypes.bfloat16),
    ],
)
@pytest.mark.parametrize("special", [0.0, 0.1, 0.9])
@pytest.mark.usefixtures("_always_selected")
def test_first_elements_lie_in_blocks_taken(
    shape: Any, k: int, axis: int, dtype: Any, special: float, largest: bool
) -> None:
    """Of equal elements the first, in whichever block; also where nearly all of a row are NaN or infinite."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, shape).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        x[rng.random(shape) < special / 2], x[rng.random(shape) < special] = np.iinfo(dtype).max, np.iinfo(dtype).min
    else:
        x[x == 0] = -0.0
        for number in (-np.inf, np.inf, np.nan):
            x[rng.random(shape) < special] = number
    values, places = run("TopK", x, np.array([k]), constants=(1,), outputs=2, largest=int(largest), axis=axis)
    expected = places_in_order(x, k, axis, largest)
    np.testing.assert_array_equal(places, expected)
    picked = np.take_along_axis(x, expected, axis)
    np.testing.assert_array_equal(np.asarray(values).view(np.uint8), picked.view(np.uint8))


@pytest.mark.usefixtures("_always_selected")
def test_an_element_of_a_row_of_nan_is_the_last_of_the_smallest() -> None:
    x = np.full((1, 16), np.nan, np.float32)
    x[0, 9], x[0, 14] = np.inf, 1
    _, places = run("TopK", x, np.array([3]), constants=(1,), outputs=2, largest=0)
    np.testing.assert_array_equal(places, [[14, 9, 0]])


def test_many_elements_take_few_kernels() -> None:
    """Not one for each element."""
    x = np.zeros((8, 4000), np.float32)
    net = ms.load_onnx(model([node("TopK", "x k", "v p")], [value("x", x)], ["v", "p"], {"k": np.int64([50])}))
    assert len(net.optimised.nodes) < 20


@pytest.mark.parametrize(("extent", "k", "rows"), [(32000, 50, 8), (4000, 500, 8), (1000, 4, 100), (7, 2, 1)])
def test_levels_end_where_all_blocks_would_be_taken(extent: int, k: int, rows: int) -> None:
    levels = cheapest_levels(extent, k, rows)
    assert levels is not None
    assert levels.extents[0] == extent
    assert levels.extents[-1] > k
    assert all(
        above == -(-below // levels.block) for below, above in zip(levels.extents, levels.extents[1:], strict=False)
    )


def test_rows_of_which_half_is_wanted_have_no_levels() -> None:
    assert cheapest_levels(100, 50, 1) is None
