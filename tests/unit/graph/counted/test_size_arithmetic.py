"""Sizes that data decide, in values that shapes are computed of: against NumPy, and what is not known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value

X = random(3, 4, 5)
# `rows` has a row of three places for each positive element, and `size` is its shape.
SIZED = [
    node("Greater", "x zero", "holds"),
    node("NonZero", "holds", "places"),
    node("Transpose", "places", "rows"),
    node("Shape", "rows", "size"),
]
KNOWN = {
    "zero": np.float32(0),
    "none": np.int64(0),
    "first": np.int64([0]),
    "one": np.int64([1]),
    "three": np.int64(3),
    "two": np.int64([2]),
    "last": np.int64([-1]),
    "most": np.int64([7]),
    "minus": np.int64([-1, -1]),
    "pair": np.int64([5, 6]),
    "seven": np.float32([7]),
}


def made(*nodes: Any, outputs: tuple[str, ...] = ("Y",)) -> ms.Network:
    return ms.load_onnx(model([*SIZED, *nodes], [value("x", X)], outputs, KNOWN))


def test_a_shape_is_a_value_like_any_other() -> None:
    net = made(
        node("Gather", "size none", "n"),
        node("Add", "n three", "sum"),
        node("Mul", "n three", "product"),
        node("Sub", "n three", "difference"),
        node("Min", "n three", "least"),
        node("Equal", "n none", "empty"),
        node("ReduceProd", "size", "all", keepdims=0),
        node("Size", "rows", "own"),
        node("Cast", "size", "floats", to=1),
        outputs=("size", "sum", "product", "difference", "least", "empty", "all", "own", "floats"),
    )
    for x in (X, -np.abs(X)):
        n = int((x > 0).sum())
        size, *rest, floats = net(x)
        np.testing.assert_array_equal(size, [n, 3])
        np.testing.assert_array_equal(floats, [n, 3])
        assert rest == [n + 3, n * 3, n - 3, min(n, 3), n == 0, 3 * n, 3 * n]


def test_sizes_are_moved_and_known_where_data_do_not_decide_them() -> None:
    """As exporters write that a tensor is repeated to a shape, which may say -1 for what stays as it is."""
    net = made(
        node("Slice", "size first one first", "n"),
        node("Unsqueeze", "three first", "columns"),
        node("Concat", "n columns", "again", axis=0),
        node("Equal", "again minus", "open"),
        node("Where", "open pair again", "wanted"),
        node("Reshape", "wanted two", "whole"),
        node("Squeeze", "n first", "number"),
        node("Cast", "number", "small", to=6),
        node("Unsqueeze", "small first", "row"),
        node("Cast", "row", "wide", to=7),
        node("Identity", "wide", "length"),
        node("ConstantOfShape", "length", "zeros"),
        node("Unsqueeze", "zeros one", "column"),
        node("Expand", "column whole", "Y"),
    )
    for x in (X, -np.abs(X)):
        np.testing.assert_array_equal(net(x), np.zeros(((x > 0).sum(), 3)))


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([node("Reshape", "x size")], r"its shape has sizes that data decide, and its input f32\[3, 4, 5\] has none"),
        ([node("Sub", "size one", "less"), node("ConstantOfShape", "less")], "its shape, `less.*`, is computed from"),
        ([node("Tile", "x size")], "its repeats, `size.*`, is computed from data"),
        (
            [node("Slice", "size first one first", "n"), node("Concat", "n n", "square", axis=0),
             node("ConstantOfShape", "square")],
            "data decide how many elements there are along its dimensions 0 and 1",
        ),
        (
            [node("ReduceMax", "size", "n", keepdims=0), node("Range", "three n three")],
            "it goes from 3 by 3 up to a size that data decide",
        ),
        ([node("Expand", "seven size", "wide"), node("Expand", "pair size")], r"do not broadcast"),
    ],
)  # fmt: skip
def test_what_sizes_do_not_decide_is_refused(nodes: list[Any], reason: str) -> None:
    with pytest.raises(ms.RefusedModel, match=reason):
        made(*nodes)


def test_what_is_known_at_load_is_no_constant_where_data_decide_how_much_of_it_there_is() -> None:
    net = made(
        node("Expand", "seven size", "sevens"),
        node("Slice", "sevens first one one", "column"),
        node("Gather", "size none", "n"),
        node("Unsqueeze", "n none", "end"),
        node("Slice", "pair first end first", "some"),
        node("Neg", "some", "fewer"),
        outputs=("column", "fewer"),
    )
    for x in (
        X,
        -np.abs(X),
        np.eye(20, dtype=np.float32)[0].reshape(X.shape[1:])[None] * np.ones((3, 1, 1), np.float32),
    ):
        n = int((x > 0).sum())
        column, fewer = net(x)
        np.testing.assert_array_equal(column, np.full((n, 1), 7))
        np.testing.assert_array_equal(fewer, [-5, -6][:n])


def test_numbers_up_to_a_size() -> None:
    net = made(
        node("Gather", "size none", "n"),
        node("Squeeze", "one", "start"),
        node("Range", "none n start", "all"),
        node("Range", "three n start", "rest"),
        outputs=("all", "rest"),
    )
    for x in (X, -np.abs(X)):
        n = int((x > 0).sum())
        found, rest = net(x)
        np.testing.assert_array_equal(found, np.arange(n))
        np.testing.assert_array_equal(rest, np.arange(3, n))
