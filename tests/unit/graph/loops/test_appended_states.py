"""Loops that data end, whose steps put rows behind a list, as `res = torch.cat([res, rows])` is exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.graph.loops.appended_states import appended_states
from tests.support.onnx_models import integers, model, node, unknown, value

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = integers(6, 3).astype(np.float32)
APPEND = [node("Cast", "list", "same", to=FLOAT), node("Concat", "same row", "longer", axis=0)]


def body(*nodes: Any, made: tuple[str, ...] = ("longer", "total")) -> Any:
    """Steps that put a row of `x` behind a list, twice as large, and add it to a sum."""
    before = [
        node("Gather", "x i", "picked", axis=0),
        node("Unsqueeze", "picked first", "own"),
        node("Add", "own own", "row"),
        node("Add", "picked sum", "total"),
        node("Identity", "on", "again"),
    ]
    given = [("i", INT, ()), ("on", BOOL, ()), ("list", FLOAT, ("n", 3)), ("sum", FLOAT, (3,))]
    inputs = [helper.make_tensor_value_info(*one) for one in given]
    constants = [numpy_helper.from_array(np.int64([0]), "first")]
    return helper.make_graph([*before, *nodes], "body", inputs, [unknown(n) for n in ("again", *made)], constants)


def looped(graph: Any, begin: Any) -> Any:
    nodes = [
        node("NonZero", "mask", "places"),
        node("Shape", "places", "shape"),
        node("Gather", "shape one", "count"),
        node("Loop", "count yes begin zero", "rows sum", body=graph),
        node("Mul", "rows rows", "squares"),
        node("ReduceSum", "rows axes", "total", keepdims=0),
    ]
    constants = {
        "one": np.int64(1), "yes": np.array(True), "axes": np.int64([0]),
        "begin": begin, "zero": np.zeros(3, np.float32),
    }  # fmt: skip
    given = [value("x", X), value("mask", X[:, 0] > 0)]
    return model(nodes, given, ["rows", "sum", "squares", "total"], constants)


@pytest.mark.parametrize("rows", [0, 2])
def test_rows_behind_a_list_are_what_steps_give_out(rows: int) -> None:
    whole = looped(body(*APPEND), np.full((rows, 3), 7, np.float32))
    net, reference = ms.load_onnx(whole), ReferenceEvaluator(whole)
    for holds in ([1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 1, 1], [0] * 6, [1, 0, 0, 0, 0, 0]):
        given = {"x": X, "mask": np.array(holds, bool)}
        for got, wanted in zip(net(**given), reference.run(None, given), strict=True):
            np.testing.assert_array_equal(got, wanted, strict=True)


@pytest.mark.parametrize(
    "nodes",
    [
        (node("Concat", "row list", "longer", axis=0),),
        (node("Concat", "list row", "longer", axis=1),),
        (node("Concat", "list row row", "longer", axis=0),),
        (node("Concat", "list list", "longer", axis=0),),
        (*APPEND, node("Shape", "longer", "size")),
        (*APPEND, node("Shape", "list", "size")),
        (node("Relu", "list", "same"), APPEND[1]),
    ],
    ids=range(7),
)
def test_what_a_step_does_otherwise_with_a_list_is_another_loop(nodes: tuple[Any, ...]) -> None:
    graph = body(*nodes)
    assert appended_states(graph, ["list", "sum"], ["longer", "total"]) == ()
    with pytest.raises(ms.RefusedModel):
        ms.load_onnx(looped(graph, np.zeros((1, 3), np.float32)))


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match=r"a state begins as f32\[0, 4\], and each step puts f32\[6, 3\] behind"):
        ms.load_onnx(looped(body(*APPEND), np.zeros((0, 4), np.float32)))


def test_another_state_of_which_data_decide_the_size_is_refused() -> None:
    whole = looped(body(*APPEND), np.zeros((0, 3), np.float32))
    (made,) = (one for one in whole.graph.node if one.op_type == "Loop")
    made.input[3] = "places"
    with pytest.raises(ms.RefusedModel, match=r"a state begins as i64\[1, 6\], of which data decide how many"):
        ms.load_onnx(whole)
