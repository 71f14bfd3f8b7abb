"""Rows in order by exchanges, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, run, value
from tests.support.sorted_rows import places_in_order


def special_floats(dtype: Any, shape: tuple[int, ...]) -> Any:
    """Numbers of which most are there several times: zeros of both signs, the least and the largest, no numbers."""
    rng = np.random.default_rng(0)
    limits = np.finfo(dtype)
    kinds = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.min, limits.smallest_subnormal, 1.0, limits.eps]
    kinds += [-limits.smallest_subnormal, 1.0 + limits.eps, 2.0 - limits.eps, -1.0, -1.0 - limits.eps]
    return rng.choice(np.array(kinds, dtype), shape)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("dtype", "shape", "axis"), [(np.float32, (2, 200), 1), (np.float16, (1, 129, 3), 1)])
def test_floats_of_all_kinds(dtype: Any, shape: tuple[int, ...], axis: int, largest: int) -> None:
    x, k = special_floats(dtype, shape), np.array([shape[axis]])
    values, places = run("TopK", x, k, constants=(1,), outputs=2, largest=largest, axis=axis)
    expected = places_in_order(x, shape[axis], axis, bool(largest))
    np.testing.assert_array_equal(places, expected)
    chosen = np.take_along_axis(x, expected, axis)
    np.testing.assert_array_equal(values, chosen)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(chosen))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("is_small", [True, False])
def test_integers_up_to_the_ends_of_their_range(dtype: Any, largest: int, is_small: bool) -> None:
    """Those of 64 bits are taken at once where all are small, and by halves of their bits otherwise."""
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    x = rng.integers(max(limits.min, -9), 9, (2, 130)).astype(dtype)
    if not is_small:
        some = rng.integers(limits.min, limits.max, 9, dtype, endpoint=True)
        some[:2] = limits.min, limits.max
        x = np.where(rng.random(x.shape) < 0.5, x, rng.choice(some, x.shape))
    values, places = run("TopK", x, np.array([130]), constants=(1,), outputs=2, largest=largest)
    expected = np.argsort(~x if largest else x, axis=1, kind="stable")
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize(("shape", "k"), [((2, 100), 0), ((0, 100), 100)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_no_elements(shape: tuple[int, int], k: int, dtype: Any) -> None:
    values, places = run("TopK", np.zeros(shape, dtype), np.array([k]), constants=(1,), outputs=2)
    assert values.shape == places.shape == (shape[0], k)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("dtype", "axis"), [(np.float32, 1), (np.float16, 0), (np.int32, 1), (np.uint8, 0)])
def test_some_of_many_short_rows_are_picked_one_by_one(dtype: Any, axis: int, largest: int) -> None:
    shape = (40, 9) if axis else (9, 40)
    x = special_floats(dtype, shape) if dtype in {np.float32, np.float16} else None
    x = np.random.default_rng(0).integers(0, 5, shape).astype(dtype) if x is None else x
    values, places = run("TopK", x, np.array([3]), constants=(1,), outputs=2, largest=largest, axis=axis)
    expected = places_in_order(x, 3, axis, bool(largest))
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("shape", [(1, 4000), (8, 256)])
def test_all_levels_but_the_first_of_each_merge_are_few_tasks(shape: tuple[int, int]) -> None:
    """They stay apart, also where they go along the same rows: a task of all levels would take a minute to guess."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    made = model([node("TopK", "X k", "Y I")], [value("X", x)], ["Y", "I"], {"k": np.array([shape[1]])})
    net = ms.load_onnx(made)
    merges = 7 if shape[0] == 1 else 3
    assert len(net.tasks()) <= merges + 5
    assert len(list(net.optimised.computes)) > 4 * merges
