"""Elements picked by indices, and elements that look for theirs, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import metasched as ms
from tests.support.onnx_models import integers, random, run

X = random(2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize("known", [(), (1,)])
def test_elements_are_gathered(known: tuple[int, ...]) -> None:
    index = ints(0, -1, 2, -3).reshape(2, 2)
    np.testing.assert_array_equal(run("Gather", X, index, constants=known, axis=1), X[:, index])
    places = integers(2, 2, 4, low=-3, high=3, dtype=np.int64)
    np.testing.assert_array_equal(
        run("GatherElements", X, places, constants=known, axis=1), np.take_along_axis(X, places % 3, 1)
    )
    pairs = ints(0, 1, 1, -1).reshape(2, 2)
    np.testing.assert_array_equal(run("GatherND", X, pairs, constants=known), X[pairs[:, 0], pairs[:, 1]])


def test_an_index_that_is_out_of_range_picks_zero_or_is_refused_where_it_is_known() -> None:
    np.testing.assert_array_equal(run("Gather", random(3), ints(3, -4, 5)), [0, 0, 0])
    with pytest.raises(ms.RefusedModel, match="an index is 3, and there are 3 elements"):
        run("Gather", random(3), ints(3), constants=(1,))


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_stretch_of_a_cache_is_replaced(mode: str) -> None:
    if onnx.defs.onnx_opset_version() < 24:
        pytest.skip("the installed onnx does not know TensorScatter")
    cache, update = random(2, 4, 3), random(2, 2, 3, seed=1)
    starts = ints(3 if mode == "circular" else 2, 0)
    expected = cache.copy()
    for batch, start in enumerate(starts):
        expected[batch, (start + np.arange(2)) % 4] = update[batch]
    made = run("TensorScatter", cache, update, starts, opset=24, axis=1, mode=mode)
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(run("TensorScatter", cache, update, opset=24, axis=1)[:, :2], update)


def test_one_of_many() -> None:
    made = run("OneHot", ints(1, -1), np.array(3, np.int64), np.float32([-1, 5]), constants=(1,))
    np.testing.assert_array_equal(made, [[-1, 5, -1], [-1, -1, 5]])


@pytest.mark.parametrize(
    ("mode", "ufunc"), [("none", None), ("add", np.add), ("max", np.maximum), ("mul", np.multiply)]
)
def test_elements_are_scattered(mode: str, ufunc: Any) -> None:
    x, updates = random(3, 4), random(2, 4, seed=1)
    index = ints(0, 2, 1, -1, 1, 0, 0, 0).reshape(2, 4)
    expected = x.copy()
    columns = np.broadcast_to(np.arange(4), (2, 4))
    if ufunc is None:
        expected[index % 3, columns] = updates
    else:
        ufunc.at(expected, (index % 3, columns), updates)
    np.testing.assert_allclose(run("ScatterElements", x, index, updates, axis=0, reduction=mode), expected, rtol=1e-6)
    rows = ints(2, -3).reshape(2, 1)
    expected = x.copy()
    if ufunc is None:
        expected[rows[:, 0]] = updates
    else:
        ufunc.at(expected, rows[:, 0] % 3, updates)
    np.testing.assert_allclose(run("ScatterND", x, rows, updates, reduction=mode), expected, rtol=1e-6)
