"""Rows of which only a call knows how many there are, in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.helper
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value

DEPTH = WIDTH = 256
TABLE = random(600, DEPTH)
WEIGHTS = random(DEPTH, WIDTH)


def loaded(room: int, width: int = WIDTH) -> ms.Network:
    """Of a table, the rows where `x` is above zero, in a product; its last row is replaced, and its rows are summed."""
    return ms.load_onnx(written(room, width))


def written(
    room: int, width: int = WIDTH, inputs: Sequence[Any] = (), outputs: Sequence[str] = ("made", "sums")
) -> Any:
    """The model of that; `inputs` are more of them."""
    nodes = [
        node("Greater", "x zero", "holds"),
        node("NonZero", "holds", "places"),
        node("Squeeze", "places first", "rows"),
        node("Gather", "table rows", "picked", axis=0),
        node("MatMul", "picked weights", "products"),
        node("Relu", "products", "positive"),
        node("ScatterND", "positive last update", "made"),
        node("ReduceSum", "made first", "sums", keepdims=0),
    ]
    known = {
        "zero": np.float32(0),
        "first": np.int64([0]),
        "last": np.int64([[-1]]),
        "update": np.full((1, width), 7, np.float32),
        "table": TABLE[:room],
        "weights": WEIGHTS[:, :width],
    }
    nodes += [node("Add", f"sums {other.name}", f"{other.name}.sum") for other in inputs]
    return model(nodes, [value("x", np.zeros(room, np.float32)), *inputs], outputs, known)


@pytest.mark.parametrize(("room", "blocks", "rows"), [(600, 8, 75), (599, 8, 75)])
def test_as_many_blocks_run_as_rows_fill(room: int, blocks: int, rows: int) -> None:
    net = loaded(room)
    (loop,) = net.graph.loops
    assert loop.most == blocks
    assert {loop.body.types[name].shape for _, name in loop.body.outputs} == {(rows, WIDTH)}
    for count in (0, 1, rows, rows + 1, room):
        x = np.full(room, -1, np.float32)
        x[np.random.default_rng(count).permutation(room)[:count]] = 1
        made, sums = net(x)
        expected = np.maximum(TABLE[:room][x > 0] @ WEIGHTS, 0)
        expected[-1:] = 7
        np.testing.assert_allclose(made, expected, atol=1e-4)
        np.testing.assert_allclose(sums, expected.sum(0), rtol=1e-4, atol=1e-2)


def test_no_more_blocks_run_than_have_a_row() -> None:
    net = loaded(600)
    x = np.full(600, -1, np.float32)
    x[:80] = 1
    assert [kernel.calls for kernel in net.profile(x, runs=1).kernels if "MatMul" in kernel.op] == [2]


def test_networks_of_many_sizes_share_kernels_and_have_no_loops() -> None:
    """Of loops that run graphs there are no buckets."""
    other = onnx.helper.make_tensor_value_info("z", 1, ["seq", WIDTH])
    net = ms.load_onnx(written(600, inputs=[other], outputs=["z.sum"]), seq=(1, 4))
    x, z = random(600), random(3, WIDTH)
    sums = np.maximum(TABLE[x > 0] @ WEIGHTS, 0)
    sums[-1] = 7
    np.testing.assert_allclose(net(x, z), z + sums.sum(0), rtol=1e-4, atol=1e-2)
    (bucket,) = net.buckets
    assert not any(bucket.network.graph.loops)


def test_little_work_is_in_no_blocks() -> None:
    assert not any(loaded(300, 16).graph.loops)


@pytest.mark.parametrize("room", [4000, 3989])
def test_rows_that_are_moved_run_in_blocks_for_fewer_elements_than_sums_have_terms(room: int) -> None:
    """What goes through memory takes longer than a term of a sum, and reading it in blocks takes no more. What joins
    blocks that do not divide the room is not taken in blocks in turn.
    """
    x, holds = random(room, 48), np.zeros(room, bool)
    net = ms.load_onnx(model([node("Compress", "x holds", axis=0)], [value("x", x), value("holds", holds)], ["Y"]))
    (loop,) = net.graph.loops
    assert loop.most > 1
    for count in (0, 1, 2000, room):
        holds = np.zeros(room, bool)
        holds[np.random.default_rng(count).permutation(room)[:count]] = True
        np.testing.assert_array_equal(net(x, holds), x[holds])
