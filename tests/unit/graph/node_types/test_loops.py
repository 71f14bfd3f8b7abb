"""Loops and scans whose number of steps is known, against loops of NumPy; and what is refused of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import metasched as ms
from tests.support.onnx_models import integers, model, node, unknown, value

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = integers(3, 4, 2).astype(np.float32)
W = integers(2, 2, seed=1).astype(np.float32)


def body(nodes: list[Any], inputs: list[tuple[str, int, Any]], outputs: list[Any], **constants: Any) -> Any:
    given = [helper.make_tensor_value_info(*one) for one in inputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    return helper.make_graph(nodes, "body", given, outputs, tensors)


def recurrence() -> Any:
    """`h = max(x W + h + 1, 0)`, and what was before; the sum of the weights and 1 does not change."""
    nodes = [
        node("Add", "one one", "two"),
        node("Sub", "two one", "again"),
        node("MatMul", "x outside", "product"),
        node("Add", "product h", "sum"),
        node("Add", "sum again", "more"),
        node("Relu", "more", "after"),
        node("Identity", "h", "before"),
    ]
    given = [("h", FLOAT, (4, 2)), ("x", FLOAT, (4, 2))]
    return body(nodes, given, [unknown("after"), unknown("before")], one=np.float32([1, 1]))


def scanned(x: Any, order: list[int]) -> tuple[Any, list[Any]]:
    h, seen = np.zeros((4, 2), np.float32), []
    for t in order:
        seen.append(h)
        h = np.maximum(x[t] @ W + h + 1, 0)
    return h, seen


@pytest.mark.parametrize(
    ("axis", "backwards", "out_axis", "prepended"), [(0, 0, 0, 0), (0, 1, 0, 1), (1, 0, -1, 0), (-3, 1, 1, 0)]
)
def test_scans_in_both_directions_along_any_axis(axis: int, backwards: int, out_axis: int, prepended: int) -> None:
    graph = recurrence()
    made = node(
        "Scan", "h0 x", "h seen", body=graph, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[backwards], scan_output_axes=[out_axis], scan_output_directions=[prepended],
    )  # fmt: skip
    x = np.moveaxis(X, 0, axis)
    given = [value("h0", X[0]), value("x", x)]
    net = ms.load_onnx(model([made], given, ["h", "seen"], {"outside": W}))
    h, seen = net(np.zeros((4, 2), np.float32), np.ascontiguousarray(x))
    expected, before = scanned(X, [2, 1, 0] if backwards else [0, 1, 2])
    np.testing.assert_array_equal(h, expected)
    np.testing.assert_array_equal(seen, np.stack(before[::-1] if prepended else before, out_axis))


@pytest.mark.parametrize(("backwards", "prepended"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scans_of_a_range_of_lengths_run_on_a_bucket(backwards: int, prepended: int) -> None:
    made = node(
        "Scan", "h0 x", "h seen", body=recurrence(), num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[backwards], scan_output_axes=[-1], scan_output_directions=[prepended],
    )  # fmt: skip
    given = [value("h0", X[0]), helper.make_tensor_value_info("x", FLOAT, (4, "n", 2))]
    net = ms.load_onnx(model([made], given, ["h", "seen"], {"outside": W}), n=ms.SizeRange(2, 7, buckets=(7,)))
    assert isinstance(net, ms.NetworkOfSizes)
    for n in (7, 5, 2):
        x = integers(n, 4, 2, seed=n).astype(np.float32)
        h, seen = net(np.zeros((4, 2), np.float32), np.ascontiguousarray(x.swapaxes(0, 1)))
        expected, before = scanned(x, list(range(n))[:: -1 if backwards else 1])
        np.testing.assert_array_equal(h, expected)
        np.testing.assert_array_equal(seen, np.stack(before[::-1] if prepended else before, -1))
    assert not net.exact


def test_steps_are_one_task_and_what_no_step_changes_is_computed_once() -> None:
    long = np.zeros((9, 4, 2), np.float32)
    made = node("Scan", "h0 x", "h seen", body=recurrence(), num_scan_inputs=1)
    whole = model([made], [value("h0", X[0]), value("x", long)], ["h"], {"outside": W})
    net = ms.load_onnx(whole)
    graph = net.graph
    assert len([one for one in graph.computes if one.op == "MatMul"]) == 9
    assert len({one.program for one in graph.computes if one.op == "MatMul"}) == 1
    assert not [one for one in graph.computes if one.op == "Sub"]
    assert len(net.tasks()) <= 2


def counting(*more: Any) -> Any:
    """Adds the number of the step to what is carried, while that is below 20; gives out what was before."""
    nodes = [
        node("Cast", "i", "own", to=FLOAT),
        node("Add", "carried own", "after"),
        node("Add", "count i", "counted"),
        node("Less", "counted limit", "goes_on"),
        *more,
    ]
    inputs = [("i", INT, ()), ("_", BOOL, ()), ("carried", FLOAT, (2,)), ("count", INT, ())]
    outputs = [
        unknown("goes_on"),
        unknown("after"),
        unknown("counted"),
        helper.make_tensor_value_info("carried", FLOAT, (2,)),
    ]
    return body(nodes, inputs, outputs, limit=np.array(20))


def looped(limit: int | None, condition: bool | None, graph: Any = None) -> Any:
    constants = {"count": np.array(0)}
    names = ["-", "-"]
    if limit is not None:
        names[0], constants["limit0"] = "limit0", np.array(limit)
    if condition is not None:
        names[1], constants["on"] = "on", np.array(condition)
    one = node("Loop", f"{' '.join(names)} x count", "y n seen", body=graph or counting())
    return model([one], [value("x", np.zeros(2, np.float32))], ["y", "seen"], constants)


@pytest.mark.parametrize(
    ("limit", "condition", "steps"),
    [(4, None, 4), (4, True, 4), (100, True, 7), (None, True, 7), (0, True, 0), (5, False, 0)],
)
def test_loops_end_by_their_number_or_their_condition(limit: int | None, condition: bool | None, steps: int) -> None:
    x = np.float32([0.5, -2])
    y, seen = ms.load_onnx(looped(limit, condition))(x)
    before = [x + sum(range(n)) for n in range(steps)]
    np.testing.assert_array_equal(y, x + sum(range(steps)))
    np.testing.assert_array_equal(seen, np.array(before, np.float32).reshape(steps, 2))


def doubling(*more: Any, outputs: tuple[str, ...] = ()) -> Any:
    """Doubles what is carried while its largest element is below 3."""
    nodes = [
        node("ReduceMax", "y", "largest", keepdims=0),
        node("Less", "largest most", "goes_on"),
        *more,
    ]
    given = [("i", INT, ()), ("_", BOOL, ()), ("x", FLOAT, (2,))]
    made = [unknown(name) for name in ("goes_on", "y", *outputs)]
    return body([node("Add", "x x", "y"), *nodes], given, made, most=np.float32(3))


@pytest.mark.parametrize(
    ("inputs", "most"), [("n on x", 2), ("- on x", None), ("many on x", None), ("m - x", 5), ("m on x", None)]
)
def test_data_may_end_loops(inputs: str, most: int | None) -> None:
    known = {"n": np.array(2), "on": np.array(True), "many": np.array(2**63 - 1)}
    x, m = np.float32([0.3, -2]), np.array(5)
    given = [value("x", x), *([value("m", m)] if inputs[0] == "m" else [])]
    net = ms.load_onnx(model([node("Loop", inputs, "y", body=doubling())], given, ["y"], known))
    assert len(list(net.graph.loops)) == 1
    steps = {"n on x": 2, "m - x": 5}.get(inputs, 4)
    assert most is None or steps == most
    np.testing.assert_array_equal(net(*[x, m][: len(given)]), x * 2**steps)


def test_what_a_loop_cannot_be_is_refused() -> None:
    known = {"n": np.array(5), "on": np.array(True)}
    longer = doubling(node("Concat", "x x", "z", axis=0))
    longer.output[1].name = "z"
    for inputs, outputs, graph, reason in (
        ("- - x", "y", doubling(), "nothing says when it ends"),
        ("n on x", "y", longer, r"a state begins as f32\[2\], and a step makes f32\[4\] of it"),
        ("- on x", "y z", doubling(node("Neg", "y", "z"), outputs=("z",)), "size of their number, which only a call"),
        ("n on x", "y", doubling(node("Range", "i n n", "r")), "its start, `y.step.*`, is computed from data"),
    ):  # fmt: skip
        made = [node("Loop", inputs, outputs, body=graph)]
        with pytest.raises(ms.RefusedModel, match=reason):
            ms.load_onnx(model(made, [value("x", np.zeros(2, np.float32))], ["y"], known))


def test_a_state_that_grows_asks_for_the_number_of_steps() -> None:
    """Steps that are known are taken apart, and may each make a longer state."""
    graph = doubling(node("Concat", "x x", "z", axis=0), node("Identity", "on", "on2"))
    graph.output[0].name, graph.output[1].name = "on2", "z"
    x = np.float32([1, -2])
    whole = model(
        [node("Loop", "n on x", "y", body=graph)],
        [value("x", x), value("n", np.array(3))],
        ["y"],
        {"on": np.array(True)},
    )
    with pytest.raises(ms.RefusedModel, match=r'a step makes f32\[4\] of it\n.*values=\{"n": ...\}') as told:
        ms.load_onnx(whole)
    assert told.value.refusals[0].unbound == ("n",)
    np.testing.assert_array_equal(ms.load_onnx(whole, values={"n": np.array(3)})(x), np.tile(x, 8))


def test_what_steps_give_out_of_a_loop_that_data_end_is_cut() -> None:
    known = {"n": np.array(5), "on": np.array(True)}
    graph = doubling(node("Neg", "y", "z"), outputs=("z",))
    x = np.float32([1, -2])
    loop = node("Loop", "n on x", "y z", body=graph)
    net = ms.load_onnx(model([loop], [value("x", x)], ["y", "z"], known))
    assert [str(type_) for type_ in net.outputs.values()] == ["f32[2]", "f32[5, 2]"]
    y, z = net(x)
    np.testing.assert_array_equal(z, [[-2, 4], [-4, 8]])
    np.testing.assert_array_equal(y, [4, -8])
    np.testing.assert_array_equal(
        ms.load_onnx(model([loop, node("Neg", "z", "u")], [value("x", x)], ["u"], known))(x), -z
    )
    total = ms.load_onnx(model([loop, node("ReduceSum", "z", "u", keepdims=0)], [value("x", x)], ["u"], known))
    assert total(x) == 6
    with pytest.raises(ms.RefusedModel, match="it can be an output of the network"):
        ms.load_onnx(
            model(
                [loop, node("CumSum", "z zero", "u", reverse=1)], [value("x", x)], ["u"], known | {"zero": np.array(0)}
            )
        )


def test_long_loops_run_a_graph_and_short_ones_are_taken_apart() -> None:
    for steps, kernels in ((9, 9), (5000, 1)):
        x = np.zeros((steps, 4, 2), np.float32)
        x[::1700] = X[0]
        made = node("Scan", "h0 x", "h seen", body=recurrence(), num_scan_inputs=1, scan_input_directions=[1])
        net = ms.load_onnx(model([made], [value("h0", X[0]), value("x", x)], ["h", "seen"], {"outside": W}))
        whole = [one for graph in (net.graph, *(loop.body for loop in net.graph.loops)) for one in graph.computes]
        assert len([one for one in whole if one.op == "MatMul"]) == kernels
        h, seen = net(np.zeros((4, 2), np.float32), x)
        expected, before = scanned(x, list(range(steps))[::-1])
        np.testing.assert_allclose(h, expected, rtol=1e-5)
        np.testing.assert_allclose(seen, np.stack(before), rtol=1e-5)


def test_a_node_of_a_body_is_refused_once() -> None:
    wrong = counting(node("ImageDecoder", "carried", "places"))
    with pytest.raises(ms.RefusedModel) as caught:
        ms.load_onnx(looped(6, None, wrong))
    (refusal,) = caught.value.refusals
    assert (refusal.op, refusal.node) == ("ImageDecoder", "Loop_node/0/ImageDecoder_node")


def test_a_scan_of_opset_8_is_not_read_as_one_of_9() -> None:
    graph = body(
        [node("Add", "h x", "after"), node("Identity", "after", "seen")],
        [("h", FLOAT, (2,)), ("x", FLOAT, (2,))],
        [helper.make_tensor_value_info(n, FLOAT, (2,)) for n in ("after", "seen")],
    )
    one = node("Scan", "- h x", "y z", body=graph, num_scan_inputs=1)
    given = [value("h", np.zeros((1, 2), np.float32)), value("x", np.zeros((1, 3, 2), np.float32))]
    outputs = [helper.make_tensor_value_info("y", FLOAT, (1, 2)), helper.make_tensor_value_info("z", FLOAT, (1, 3, 2))]
    whole = helper.make_model(
        helper.make_graph([one], "old", given, outputs), opset_imports=[helper.make_opsetid("", 8)]
    )
    assert isinstance(whole, onnx.ModelProto)
    with pytest.raises(ms.RefusedModel, match=r"(?s)opset 8.*gives `h` and `x` another type"):
        ms.load_onnx(whole)
