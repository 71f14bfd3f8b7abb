"""Dimensions that are always used together are one."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.graph.ir import Compute, Graph
from metasched.graph.passes.dimensions import dimensions
from metasched.graph.value_type import ValueType
from tests.support.graphs import context, network, require_equal


def joined(body: str) -> Graph:
    """The graph of a network after the pass, which computes the same."""
    graph = network(body).graph
    made = dimensions(graph, context())
    made.validate()
    require_equal(graph, made)
    return made


@pytest.mark.parametrize(
    ("body", "stage"),
    [
        ("m (float[2, 3, 4] x, float[4, 5] w) => (y) { y = MatMul(x, w) }", "Y: f32[6, 5]"),
        ("m (float[2, 3, 4] x) => (y) { y = Relu(x) }", "Y: f32[24]"),
        ("m (float[2, 3, 4] x) => (y) { y = Softmax(x) }", "Y: f32[6, 4]"),
        ("m (float[2, 3, 4, 5] x) => (y) { y = Transpose<perm = [0, 3, 1, 2]>(x) }", "Y: f32[2, 5, 12]"),
        ("m (float[2, 3, 4] x) => (y) { y = ReduceSum<keepdims = 0>(x) }", "Y: f32[1]"),
        # One element of each row is left out: rows and columns are not one dimension.
        ("m (float[4, 6] x) => (y) <int64[1] s = {1}, int64[1] e = {6}, int64[1] a = {1}> { y = Slice(x, s, e, a) }",
         "Y: f32[4, 5]"),
        ("m (float[4, 6] x, float[6] b) => (y) { y = Add(x, b) }", "Y: f32[4, 6]"),
        ("m (float[4, 6] x) => (y) <int64 a = {1}> { y = CumSum(x, a) }", "Y: f32[4, 6]"),
        # Vectors would go along the one column.
        ("m (float[4, 6] x, float[6, 1] w) => (y) { y = MatMul(x, w) }", "Y: f32[4]"),
        ("m (float[1, 6, 3, 3] x) => (y) { y = GlobalAveragePool(x) }", "Y: f32[6]"),
    ],
)  # fmt: skip
def test_what_is_joined(body: str, stage: str) -> None:
    graph = joined(body)
    assert any(stage in str(node.program) for node in graph.computes), str(graph)


def test_weights_lose_dimensions_of_one_element() -> None:
    weights = "<float[4, 1, 1, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>"
    graph = joined(f"m (float[1, 4, 5, 5] x) => (y) {weights} {{ y = Conv<group = 4>(x, w) }}")
    (node,) = graph.computes
    assert graph.types[node.inputs[1]].shape == (4, 3)


def test_positions_of_an_arg_reduction_count_as_before() -> None:
    joined("m (float[3, 4, 5] x) => (y) { y = ArgMax<axis = 1>(x) }")


def test_an_index_into_a_dimension_that_is_left_out_is_no_input_any_more() -> None:
    """Only what stages read between them has the dimension, and the index says where in it: at the one element."""
    program = ms.parse_program(
        "program p(A: f32[4, 6], C: i64[1]) -> Y: f32[4, 6]:\n"
        "    T: f32[4, 1, 6]\n"
        "    T[i, u, j] = exp(A[i, j])\n"
        "    Y[i, j] = T[i, C[0], 5 - j] * A[i, j]\n"
    )
    types = {"a": ValueType(DType.F32, (4, 6)), "c": ValueType(DType.I64, (1,)), "y": ValueType(DType.F32, (4, 6))}
    node = Compute("y", "Test", program, ("a", "c"), ("y",))
    graph = Graph("g", types, ("a", "c"), (("y", "y"),), {}, (node,))
    made = dimensions(graph, context())
    made.validate()
    (only,) = made.computes
    assert only.inputs == ("a",)
