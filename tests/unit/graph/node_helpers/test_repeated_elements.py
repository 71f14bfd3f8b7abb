"""Indices that are repeated along some dimensions are looked for once."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value


def test_a_sum_of_booleans_is_as_many_as_there_are_places() -> None:
    """As exporters write what is put where a mask holds, of elements or of rows."""
    x = random(4, 5)
    nodes = [
        node("Greater", "x zero", "mask"),
        node("NonZero", "mask", "places"),
        node("Transpose", "places", "rows"),
        node("Reshape", "mask flat", "row"),
        node("Cast", "row", "ones", to=7),
        node("ReduceSum", "ones", "n"),
        node("Expand", "seven n", "values"),
        node("ScatterND", "x rows values", "put"),
        node("Cast", "mask", "whole", to=6),
        node("ReduceMax", "whole last", "most", keepdims=0),
        node("Cast", "most", "any", to=9),
        node("Unsqueeze", "any last", "column"),
        node("Expand", "column shape", "all"),
        node("NonZero", "all", "those"),
        node("Transpose", "those", "them"),
        node("Cast", "any", "ints", to=7),
        node("ReduceSum", "ints", "m"),
        node("Concat", "m five", "size", axis=0),
        node("Expand", "seven size", "sevens"),
        node("Reshape", "sevens flat", "more"),
        node("ScatterND", "x them more", "put_rows"),
    ]
    known = {"zero": np.float32(0), "flat": np.int64([-1]), "last": np.int64([1]), "seven": np.float32(7)}
    known |= {"shape": np.int64([4, 5]), "five": np.int64([5])}
    net = ms.load_onnx(model(nodes, [value("x", x)], ["put", "put_rows"], known))
    for given in (x, -np.abs(x), x * np.float32([[1], [0], [0], [1]])):
        put, rows = net(given)
        np.testing.assert_array_equal(put, np.where(given > 0, 7, given))
        np.testing.assert_array_equal(rows, np.where((given > 0).any(1, keepdims=True), 7, given))
    other = [*nodes[:3], node("Less", "x zero", "row"), *nodes[4:8]]
    # Of another mask's there are others, and what has no other is left out.
    for given in (x, -np.abs(x), np.abs(x), x * np.float32([[1], [0], [0], [1]])):
        places = np.argwhere(given > 0)[: np.count_nonzero(given < 0)]
        wanted = given.copy()
        wanted[tuple(places.T)] = 7
        put = ms.load_onnx(model(other, [value("x", x)], ["put"], known))(given)
        np.testing.assert_array_equal(put, wanted)


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 2, 5)])
def test_what_repeats_a_row_is_as_quick_as_the_row(shape: tuple[int, ...]) -> None:
    x, updates, index = random(6, 4, 5), random(*shape), np.int64([4, -1, 4])
    nodes = [
        node("Reshape", "i column", "columns"),
        node("Expand", "columns shape", "wide"),
        node("ScatterElements", "x wide u", axis=0),
    ]
    known = {"column": np.int64([3, 1, 1]), "shape": np.int64(shape)}
    net = ms.load_onnx(model(nodes, [value("x", x), value("u", updates), value("i", index)], ["Y"], known))
    wanted = x.copy()
    for update, place in zip(updates, index, strict=True):
        wanted[place, : shape[1]] = update
    np.testing.assert_array_equal(net(x, updates, index), wanted)
    (scatter,) = [one for one in net.graph.computes if one.op == "ScatterElements"]
    assert "P: i8[6, 1, 1]" in str(scatter.program)
