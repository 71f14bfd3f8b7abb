"""The largest elements, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import check_some_rows, integers, model, node, run, value


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_the_largest_elements_of_each_row() -> None:
    x = np.float32([[3, 1, np.nan, 3], [0, -1, 2, 5]])
    values, places = run("TopK", x, ints(3), constants=(1,), outputs=2)
    np.testing.assert_array_equal(values, [[np.nan, 3, 3], [5, 2, 0]])
    np.testing.assert_array_equal(places, [[2, 0, 3], [3, 2, 0]])
    values, _ = run("TopK", x, ints(2), constants=(1,), outputs=2, largest=0)
    np.testing.assert_array_equal(values, [[1, 3], [-1, 0]])


@pytest.mark.parametrize(("extent", "k"), [(0, 0), (5, 0), (600, 0)])
def test_no_elements_of_each_row(extent: int, k: int) -> None:
    for shape in ((extent,), (2, extent)):
        values, places = run("TopK", np.ones(shape, np.float32), ints(k), constants=(1,), outputs=2)
        assert values.shape == places.shape == (*shape[:-1], k)
        assert (values.dtype, places.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize(
    ("extent", "k", "axis", "largest"),
    [
        *itertools.product([5003], [7], [1], [0, 1]),
        *itertools.product([1100], [3], [0], [0, 1]),
    ],
)
def test_a_few_of_many_elements(extent: int, k: int, axis: int, largest: int) -> None:
    rng = np.random.default_rng(0)
    # Most elements are there several times.
    x = rng.integers(-200, 200, (2, extent) if axis else (extent, 2)).astype(np.float32)
    x[tuple(rng.integers(0, n, 5) for n in x.shape)] = np.nan
    values, places = run("TopK", x, ints(k), constants=(1,), outputs=2, largest=largest, axis=axis)
    keys = np.where(np.isnan(x), np.inf, x)
    expected = np.argsort(-keys if largest else keys, axis=axis, kind="stable").take(range(k), axis)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize(
    ("dtype", "largest", "length"),
    [
        *itertools.product([np.float32, np.float64, np.int32, np.int64, np.uint8], [0, 1], [70]),
        *[(np.float32, 0, 1501), (np.float32, 1, 1501), (np.int64, 0, 1501), (np.uint8, 1, 1501)],
    ],
)
def test_a_few_are_the_first_in_order(dtype: Any, largest: int, length: int) -> None:
    """One by one, and from long rows those of the blocks whose first elements come first."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (40, 3, length)).astype(dtype)  # of equal elements, that of the lower place comes first
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1], x[rng.random(x.shape) < 0.05] = np.inf, np.nan
        x[0], x[1], x[2] = np.nan, -np.inf, np.inf
    else:
        x[0], x[1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    values, places = run("TopK", x, ints(4), constants=(1,), outputs=2, largest=largest, axis=2)
    # NaN is the largest: first of the largest, last of the smallest.
    nan = x != x
    order = np.argsort(-x.astype(np.float64) if largest else x, axis=2, kind="stable")
    turn = np.take_along_axis(nan, order, 2)
    order = np.take_along_axis(order, np.argsort(~turn if largest else turn, axis=2, kind="stable"), 2)
    np.testing.assert_array_equal(places, order[..., :4])
    np.testing.assert_array_equal(values, np.take_along_axis(x, order[..., :4], 2))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("room", [4, 30])
def test_the_best_of_as_many_as_data_decide(largest: int, room: int) -> None:
    """As detectors take them: so many, or all that there are; what is not there comes after NaN and infinities."""
    x = np.float32([3, np.nan, -1, np.inf, 3, -np.inf, 0.5, -1, 9, -np.inf])
    nodes = [
        node("Compress", "x mask", "some", axis=0),
        node("Shape", "some", "size"),
        node("Concat", "size room", "both", axis=0),
        node("ReduceMin", "both", "k"),
        node("TopK", "some k", "values places", largest=largest),
    ]
    mask = np.ones(10, bool)
    net = ms.load_onnx(
        model(nodes, [value("x", x), value("mask", mask)], ["values", "places"], {"room": np.int64([room])})
    )
    for given in (mask, ~mask, x != 9, x == x, np.arange(10) < 3):
        some = x[given]
        order = np.argsort(-some if largest else some, kind="stable")
        if largest:
            order = np.concatenate([np.flatnonzero(some != some), order[: (some == some).sum()]])
        values, places = net(x, given)
        np.testing.assert_array_equal(places, order[:room])
        np.testing.assert_array_equal(values, some[order[:room]])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64], ids=str)
@pytest.mark.parametrize("largest", [0, 1])
def test_a_known_number_of_as_many_as_data_decide(dtype: Any, largest: int) -> None:
    x = integers(9, 3, low=0, high=4, dtype=dtype)
    x[1] = x[3] = np.iinfo(dtype).max if x.dtype.kind in "iu" else np.inf
    x[2] = x[4] = np.iinfo(dtype).min if x.dtype.kind in "iu" else -np.inf
    nodes = [node("TopK", f"some k{k}", f"v{k} p{k}", largest=largest, axis=0) for k in (2, 5)]
    masks = [np.ones(9, bool), np.arange(9) < 5, np.arange(9) > 2]
    names = ["v2", "p2", "v5", "p5"]
    check_some_rows(nodes, names, x, masks, {"k2": np.int64([2]), "k5": np.int64([5])})


def test_where_fewer_are_there_than_a_known_number_it_takes_all() -> None:
    x = np.float32([3, 1, 4, 1, 5])
    nodes = [node("Compress", "x mask", "some", axis=0), node("TopK", "some k", "v p")]
    inputs = [value("x", x), value("mask", x > 1)]
    net = ms.load_onnx(model(nodes, inputs, ["v", "p"], {"k": np.int64([4])}))
    values, places = net(x, x > 1)
    np.testing.assert_array_equal(values, [5, 4, 3])
    np.testing.assert_array_equal(places, [2, 1, 0])
    with pytest.raises(ms.RefusedModel, match="it takes 6 of at most 5 elements"):
        ms.load_onnx(model(nodes, inputs, ["v"], {"k": np.int64([6])}))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("step", [1, -1, 3, -2])
def test_the_first_elements_of_some_of_a_row(step: int, largest: int) -> None:
    """What the row is a part of is read at places that data decide, moved, mirrored and scaled."""
    x = np.random.default_rng(0).standard_normal((3, 17)).astype(np.float32)
    ends = {"start": [3 if step > 0 else -2], "end": [17 if step > 0 else 1], "axis": [1], "step": [step], "k": [2]}
    nodes = [node("Slice", "x start end axis step", "some"), node("TopK", "some k", "v p", largest=largest)]
    net = ms.load_onnx(model(nodes, [value("x", x)], ["v", "p"], {name: ints(*n) for name, n in ends.items()}))
    some = x[:, 3 if step > 0 else -2 : 17 if step > 0 else 1 : step]
    expected = np.argsort(-some if largest else some, axis=1)[:, :2]
    values, places = net(x)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(some, expected, 1))


@pytest.mark.parametrize("before", ["ReduceMin", "TopK"])
def test_the_first_element_along_a_dimension_of_one(before: str) -> None:
    reduces = before == "ReduceMin"
    x = np.random.default_rng(0).standard_normal((4 if reduces else 1, 1, 7)).astype(np.float32)
    first = node(before, "x axis", "a", keepdims=0) if reduces else node(before, "x k", "a i", axis=0)
    nodes = [first, node("TopK", "a k", "v p", axis=0)]
    net = ms.load_onnx(model(nodes, [value("x", x)], ["v", "p"], {"axis": ints(0), "k": ints(1)}))
    expected = x.min(axis=0) if reduces else x
    values, places = net(x)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(places, np.zeros(expected.shape))
