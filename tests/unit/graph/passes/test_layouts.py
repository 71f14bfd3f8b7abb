"""Layouts are chosen for whole regions, copies stand only where an order ends, and results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import metasched as ms
from metasched.graph.ir import Graph
from metasched.graph.passes.common_subexpressions import common_subexpressions
from metasched.graph.passes.declaration import PassContext, PassOptions
from metasched.graph.passes.layouts import layouts
from tests.support.graphs import context, require_equal
from tests.support.targets import AVX512


def imported(body: str, **weights: tuple[int, ...]) -> Graph:
    """The graph of a network whose weights have these shapes."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]>\n{body}')
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return ms.load_onnx(model).graph


def laid_out(body: str, **weights: tuple[int, ...]) -> Graph:
    """The graph of a network after the pass, which computes the same."""
    graph = imported(body, **weights)
    made = layouts(graph, PassContext(PassOptions(AVX512)))
    made.validate()
    require_equal(graph, made, rtol=1e-4, atol=1e-4)
    return made


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {name: graph.types[name].shape for node in graph.nodes for name in node.outputs}


def copies(graph: Graph) -> list[str]:
    """The values that are only copied into another order."""
    return [node.outputs[0] for node in graph.nodes if node.op in ("Layout", "Transpose")]


def filters(graph: Graph) -> list[tuple[int, ...]]:
    return sorted(array.shape for array in graph.constants.values() if array.ndim > 2)


CONVS = """m (float[1, 3, 8, 7] x) => (y) {
    c = Conv<pads = [1, 1, 1, 1]>(x, v, b)
    r = Relu(c)
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
    q = Conv(p, w)
    a = Add(q, p)
    g = GlobalAveragePool(a)
    y = Flatten(g)
}"""
WEIGHTS = {"v": (32, 3, 3, 3), "b": (32,), "w": (32, 32, 1, 1)}


def test_channels_are_innermost_from_the_first_convolution_to_the_last_pool() -> None:
    graph = laid_out(CONVS, **WEIGHTS)
    found = shapes(graph)
    assert found["c"] == found["r"] == (1, 8, 7, 32)
    assert found["p"] == found["q"] == found["a"] == (1, 4, 3, 32)
    assert copies(graph) == []
    assert filters(graph) == [(1, 1, 32, 32), (3, 3, 3, 32)]


def test_loops_go_in_the_order_of_memory_and_the_border_reads_what_is_given() -> None:
    text = str(next(iter(laid_out(CONVS, **WEIGHTS).computes)).program)
    assert "T[n, h0, h1, o] = sum[r0 < 3, r1 < 3, c < 3](P[n, h0 + r0, h1 + r1, c] * W[r0, r1, c, o])" in text
    assert "P[n, h0, h1, c] = A[n, c, h0 - 1, h1 - 1]" in text


def test_a_result_is_as_the_model_says() -> None:
    graph = laid_out("m (float[1, 3, 8, 8] x) => (y) { y = Conv(x, v) }", v=(32, 3, 3, 3))
    assert shapes(graph)["y"] == (1, 6, 6, 32)
    assert [graph.types[name].shape for _, name in graph.outputs] == [(1, 32, 6, 6)]


def test_transposes_of_a_model_with_channels_last_are_no_copies_any_more() -> None:
    body = """m (float[1, 9, 8, 16] x) => (y) {
        t = Transpose<perm = [0, 3, 1, 2]>(x)
        c = Conv(t, v)
        r = Relu(c)
        d = Conv<group = 32>(r, w)
        y = Transpose<perm = [0, 2, 3, 1]>(d)
    }"""
    graph = laid_out(body, v=(32, 16, 3, 3), w=(32, 1, 3, 3))
    assert [node.op for node in graph.nodes] == ["Transpose", "Conv", "Relu", "Conv"]
    assert shapes(graph)["c"] == (1, 7, 6, 32)


def test_one_and_three_spatial_dimensions() -> None:
    body = "m (float[2, 16, 9] x) => (y) { c = Conv<pads = [1, 1]>(x, v)  y = Conv(c, w) }"
    graph = laid_out(body, v=(16, 16, 3), w=(16, 16, 3))
    assert shapes(graph)["c"] == (2, 9, 16)
    assert filters(graph) == [(3, 16, 16), (3, 16, 16)]
    body = "m (float[1, 16, 4, 4, 4] x) => (y) { c = Conv(x, v)  y = Conv(c, w) }"
    graph = laid_out(body, v=(16, 16, 2, 2, 2), w=(16, 16, 2, 2, 2))
    assert shapes(graph)["c"] == (1, 3, 3, 3, 16)


def test_transposed_convolutions_alone_move_their_channels() -> None:
    """Rows and columns of what they read are quotients of those of the result, which vectors cannot follow."""
    graph = laid_out(
        """m (float[1, 32, 4, 4] x) => (y) {
            c = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, v)
            r = Relu(c)
            y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(r, w)
        }""",
        v=(32, 32, 4, 4),
        w=(32, 32, 4, 4),
    )
    assert shapes(graph)["r"] == (1, 8, 8, 32)


def test_groups_are_channels_of_their_inputs_and_outputs() -> None:
    graph = laid_out(
        "m (float[1, 16, 6, 6] x) => (y) { s = Sigmoid(x)  c = Conv<group = 4>(s, v)  y = Relu(c) }", v=(32, 4, 3, 3)
    )
    found = shapes(graph)
    assert found["s"] == (1, 6, 6, 16)
    assert found["c"] == (1, 4, 4, 32)
    assert filters(graph) == [(3, 3, 4, 32)]


@pytest.mark.parametrize(("group", "shape"), [(16, (1, 14, 14, 64)), (4, (1, 64, 14, 14))])
def test_channels_of_groups_that_fill_vectors_are_innermost(group: int, shape: tuple[int, ...]) -> None:
    """All lanes of a vector read one element then, and otherwise those of several groups."""
    body = f"""m (float[1, 64, 14, 14] x) => (y) {{
        c = Conv<pads = [1, 1, 1, 1], group = {64 // group}>(x, v)
        r = Relu(c)
        d = Conv<pads = [1, 1, 1, 1], group = {64 // group}>(r, w)
        y = Relu(d)
    }}"""
    assert shapes(laid_out(body, v=(64, group, 3, 3), w=(64, group, 3, 3)))["r"] == shape


def test_a_view_that_splits_channels_follows_and_one_that_mixes_them_with_pixels_gets_a_copy() -> None:
    shuffled = """m (float[1, 16, 6, 6] x) => (y) <int64[5] s = {1, 4, 8, 4, 4}, int64[4] t = {1, 32, 4, 4}> {
        c = Conv(x, v)
        a = Reshape(c, s)
        b = Transpose<perm = [0, 2, 1, 3, 4]>(a)
        d = Reshape(b, t)
        y = Conv(d, w)
    }"""
    graph = laid_out(shuffled, v=(32, 16, 3, 3), w=(16, 32, 1, 1))
    assert shapes(graph)["a"] == (1, 4, 4, 4, 8)
    assert shapes(graph)["b"] == (1, 4, 4, 8, 4)
    mixed = """m (float[1, 16, 6, 6] x) => (y) <int64[2] s = {1, 512}> {
        c = Conv(x, v)
        a = Reshape(c, s)
        y = MatMul(a, w)
    }"""
    graph = laid_out(mixed, v=(32, 16, 3, 3), w=(512, 8))
    assert shapes(graph)["c"] == (1, 4, 4, 32)
    assert copies(graph) == ["c.given"]


def test_joined_and_upsampled_channels_follow() -> None:
    body = """m (float[1, 16, 8, 8] x) => (y) <float[4] scales = {1, 1, 2, 2}> {
        a = Conv<pads = [1, 1, 1, 1]>(x, v)
        p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)
        b = Conv(p, w)
        u = Resize<mode = "nearest">(b, , scales)
        j = Concat<axis = 1>(a, u)
        z = Conv(j, q)
        y = GlobalMaxPool(z)
    }"""
    graph = laid_out(body, v=(16, 16, 3, 3), w=(24, 16, 1, 1), q=(16, 40, 1, 1))
    assert all(shape[-1] in (16, 24, 40) for shape in shapes(graph).values() if 1 not in shape[1:])
    assert shapes(graph)["j"] == (1, 8, 8, 40)
    assert copies(graph) == []


def test_products_with_matrices_stay_and_their_weights_are_rows_by_columns() -> None:
    body = "m (float[4, 16] x) => (y) { a = Gemm<transB = 1>(x, v, b)  y = MatMul(a, w) }"
    graph = laid_out(body, v=(32, 16), b=(32,), w=(32, 16))
    assert shapes(graph)["a"] == (4, 32)
    assert sorted(array.shape for array in graph.constants.values()) == [(16, 32), (32,), (32, 16)]


def test_weights_in_another_order_take_no_memory() -> None:
    before, after = imported(CONVS, **WEIGHTS), laid_out(CONVS, **WEIGHTS)
    for array in after.constants.values():
        assert array.base is not None or any(array is own for own in before.constants.values())


def test_attention_has_no_weights_and_stays() -> None:
    body = """m (float[2, 4, 6, 8] q, float[2, 4, 6, 8] k) => (s) {
        t = Transpose<perm = [0, 1, 3, 2]>(k)
        s = MatMul(q, t)
    }"""
    graph = common_subexpressions(imported(body), context())
    assert layouts(graph, context()).nodes == graph.nodes


def test_sums_of_columns_are_computed_beside_each_other() -> None:
    graph = laid_out(CONVS, **WEIGHTS)
    (node,) = (node for node in graph.computes if node.op == "GlobalAveragePool")
    assert "T: f32[1, 1, 1, 32]" in str(node.program)


def test_what_is_one_element_for_all_lanes_stays_as_it_is() -> None:
    """A convolution whose taps are moved wants what these read side by side; a place is read once for all channels."""
    shape = "x, float[1, 18, 8, 8] o"
    body = f"m (float[1, 32, 8, 8] {shape}) => (y) {{ y = DeformConv<pads = [1, 1, 1, 1]>(x, w, o) }}"
    places = [sizes for sizes in shapes(laid_out(body, w=(32, 32, 3, 3))).values() if len(sizes) == 8]
    assert places == [(1, 1, 3, 3, 2, 2, 8, 8)] * 2


def test_a_single_channel_wants_no_order() -> None:
    body = "m (float[1, 32, 8, 8] x, float[1, 1, 8, 8] z) => (y) { c = Conv(x, w)\n a = Add(c, z)\n y = Conv(a, v) }"
    graph = laid_out(body, w=(1, 32, 1, 1), v=(32, 1, 3, 3))
    assert shapes(graph)["a"] == (1, 1, 8, 8)


@pytest.mark.parametrize(
    "body",
    [
        "y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)  z = MatMul(y, v)",
        """y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)  m = ReduceMax<keepdims = 0>(x)
        o = Constant<value_float = 1.0>()  few = Less(m, o)
        z = If(few) <then_branch = a () => (p) { p = Neg(y) }, else_branch = b () => (q) { q = Exp(y) }>""",
    ],
    ids=["a product has the values", "data choose a branch that reads them"],
)
def test_values_and_their_positions_have_one_order(body: str) -> None:
    text = f"m (float[1, 3, 8, 8] x) => (z, i) {{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  {body} }}"
    graph = laid_out(text, w=(32, 3, 3, 3), v=(4, 4))
    assert shapes(graph)["c"] == (1, 8, 8, 32)
