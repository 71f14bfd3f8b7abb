"""Nodes that only move elements are read through."""

from __future__ import annotations

import pytest

from metasched.graph.ir import Graph
from metasched.graph.passes.movement import movement
from metasched.graph.passes.pipeline import PassOptions, optimise_graph
from metasched.target import Target
from tests.support.graphs import context, network, require_equal


def moved(body: str) -> tuple[Graph, list[str]]:
    """The graph of a network after the pass, which computes the same, and the pass's remarks."""
    graph, given = network(body).graph, context()
    made = movement(graph, given)
    made.validate()
    require_equal(graph, made)
    return made, given.remarks


def last_lines(graph: Graph) -> list[str]:
    return [str(node.program).splitlines()[-1].strip() for node in graph.computes]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("m (float[3, 4] x, float[5, 4] w) => (y) { t = Transpose<perm = [1, 0]>(w)  y = MatMul(x, t) }",
         ["Y[i0, i1] = sum[r0 < 4](A[i0, r0] * B[i1, r0])"]),
        ("m (float[8] x) => (y, z) { a, b = Split<axis = 0, num_outputs = 2>(x)  y = Mul(a, b)  z = Sub(a, b) }",
         ["Y[i0] = A[i0] * A[i0 + 4]", "Y[i0] = A[i0] - A[i0 + 4]"]),
        ("m (float[4, 1] x) => (y) <int64[2] s = {4, 3}> { a = Expand(x, s)  y = Exp(a) }",
         ["Y[i0, i1] = exp(A[i0, 0])"]),
        ("m (float[4, 6] x) => (y) <int64[3] s = {4, 2, 3}> { v=Reshape(x,s) t=Transpose<perm=[1,0,2]>(v) y=Exp(t)}",
         ["Y[i0, i1, i2] = exp(A[i1, i0, i2])"]),
    ],
)  # fmt: skip
def test_what_moves_elements_is_read_through(body: str, lines: list[str]) -> None:
    assert last_lines(moved(body)[0]) == lines


def test_stretches_of_what_is_computed_are_read_where_they_lie_by_equal_programs() -> None:
    body = """m (float[3, 4] x) => (y) {
        e = Exp(x)  a, b, c = Split<axis = 0, num_outputs = 3>(e)
        p = Mul(a, a)  q = Mul(b, p)  y = Mul(c, q)
    }"""
    graph, _ = moved(body)
    assert last_lines(graph)[-2:] == ["Y[i0, i1] = A[0, i1] * B[0, i1]"] * 2


def test_a_value_that_is_an_output_is_moved_and_read_through() -> None:
    graph, _ = moved("m (float[3, 4] x) => (t, y) { t = Transpose<perm = [1, 0]>(x)  y = Exp(t) }")
    assert last_lines(graph) == ["Y[i0, i1] = A[i1, i0]", "Y[i0, i1] = exp(A[i1, i0])"]


def test_dimensions_that_were_put_together_are_left_to_what_computes_them() -> None:
    graph, remarks = moved(
        """m (float[2, 3, 4] x, float[8, 5] w) => (y) <int64[2] s = {3, 8}> {
            t = Transpose<perm = [1, 0, 2]>(x)  v = Reshape(t, s)  y = MatMul(v, w)
        }"""
    )
    assert [node.op for node in graph.nodes] == ["Transpose", "Reshape", "MatMul"]
    assert "its places would not be linear" in remarks[0]


@pytest.mark.parametrize(
    "body",
    [
        # A grid of 2 x 2 elements a window put together to an image, pooled with a border.
        """m (float[2, 2, 3, 3, 2] x) => (y) <int64[4] s = {1, 2, 6, 6}> {
            t = Transpose<perm = [4, 2, 0, 3, 1]>(x)  v = Reshape(t, s)
            y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>(v)
        }""",
        # Tokens of a video, pooled along all its dimensions.
        """m (float[1, 12, 2] x) => (y) <int64[5] s = {1, 2, 2, 2, 3}> {
            t = Transpose<perm = [0, 2, 1]>(x)  v = Reshape(t, s)
            y = MaxPool<kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1]>(v)
        }""",
    ],
)
def test_windows_with_a_border_read_through_views_of_other_orders(body: str) -> None:
    moved(body)


@pytest.mark.parametrize("moves", ["Transpose<perm = [1, 0, 2]>(x)", "Relu(x)"])
def test_places_that_data_decide_are_not_divided(moves: str) -> None:
    graph, _ = moved(
        f"""m (float[2, 3, 4] x, int64[5] rows) => (y) <int64[2] s = {{6, 4}}> {{
            t = {moves}  v = Reshape(t, s)  y = Gather<axis = 0>(v, rows)
        }}"""
    )
    assert len(list(graph.computes)) == 2
    optimise_graph(graph, PassOptions(Target.detect()))  # neither does another pass


def test_places_that_an_input_alone_says_are_not_added_to() -> None:
    graph, _ = moved(
        """m (float[2, 3, 4] x) => (y)
        <int64[1] b = {1}, int64[1] e = {4}, int64[1] a = {2}, int64[3] rows = {2, 0, 1}> {
            t = Slice(x, b, e, a)  y = Gather<axis = 2>(t, rows)
        }"""
    )
    assert len(list(graph.computes)) == 2
    optimise_graph(graph, PassOptions(Target.detect()))  # neither does another pass


@pytest.mark.parametrize(("count", "kernels"), [(8, 2), (2, 1)])
def test_what_puts_rows_that_data_say_the_places_of_side_by_side_stays_where_all_is_read(
    count: int, kernels: int
) -> None:
    graph, _ = moved(
        f"m (float[6, 4] x, int64[{count}] i) => (y) {{ t = Transpose<perm = [1, 0]>(x)  y = Gather<axis = 0>(t, i) }}"
    )
    assert len(last_lines(graph)) == kernels
