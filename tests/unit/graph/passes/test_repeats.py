"""What reads values that are repeated along a part of a dimension reads them where they lie."""

from __future__ import annotations

import pytest

from metasched.graph.ir import Graph
from metasched.graph.passes.pipeline import PassOptions, optimise_graph
from metasched.graph.passes.repeats import repeats
from metasched.target import Target
from tests.support.graphs import context, network, require_equal

EXPAND = "<int64[1] at = {2}, int64[5] e = {1, 2, 3, 5, 4}, int64[4] h = {1, 6, 5, 4}>"
ATTENTION = """m (float[1, 6, Q, 4] q, float[1, 2, 5, 4] k, float[1, 2, 5, 4] v, float[Q, 5] mask) => (y) SIZES {
    ku = Unsqueeze(k, at)  ke = REPEAT(ku, e)  kh = Reshape(ke, h)  kt = Transpose<perm = [0, 1, 3, 2]>(kh)
    vu = Unsqueeze(v, at)  ve = REPEAT(vu, e)  vh = Reshape(ve, h)
    s = MatMul(q, kt)  c = Constant<value_float = 0.5>()  t = Mul(s, c)  u = Add(t, mask)
    p = Softmax<axis = -1>(u)  o = MatMul(p, vh)  y = Transpose<perm = [0, 2, 1, 3]>(o)
}"""
TILE = "<int64[1] at = {2}, int64[5] e = {1, 1, 3, 1, 1}, int64[4] h = {1, 6, 5, 4}>"


def optimised(body: str, opset: int = 22) -> Graph:
    """The graph of a network after the pass, and after all passes, both of which compute the same."""
    graph = network(body, opset).graph
    made = repeats(graph, context())
    made.validate()
    require_equal(graph, made, rtol=1e-5, atol=1e-6)
    whole = optimise_graph(graph, PassOptions(Target.detect()))
    require_equal(graph, whole, rtol=1e-5, atol=1e-6)
    return whole


def products(graph: Graph) -> list[str]:
    lines = [line for node in graph.computes for line in str(node.program).splitlines()]
    return [line.split("sum")[1] for line in lines if "sum" in line and "*" in line]


@pytest.mark.parametrize(("op", "sizes"), [("Expand", EXPAND), ("Tile", TILE)])
@pytest.mark.parametrize("queries", [1, 7])
def test_keys_and_values_of_several_queries_are_read_where_they_lie(op: str, sizes: str, queries: int) -> None:
    text = ATTENTION.replace("REPEAT", op).replace("SIZES", sizes).replace("Q, ", f"{queries}, ")
    graph = optimised(text)
    assert not any(op in node.op and "MatMul" not in node.op for node in graph.computes)
    assert len(products(graph)) == 2
    assert all("//" not in line and "B[i0, " in line for line in products(graph))


@pytest.mark.parametrize("queries", [1, 7])
def test_the_node_attention_reads_keys_where_they_lie(queries: int) -> None:
    graph = optimised(
        f"""m (float[1, 6, {queries}, 4] q, float[1, 2, 32, 4] k, float[1, 2, 32, 4] v) => (y) {{
            y = Attention(q, k, v)
        }}""",
        23,
    )
    shapes = [graph.types[name].shape for node in graph.computes if "MatMul" in node.op for name in node.inputs]
    assert sum(shape == (2, 32, 4) for shape in shapes) == 2
    assert not any("Expand" in node.op and "MatMul" not in node.op for node in graph.computes)


def test_queries_that_were_transposed_are_read_by_groups() -> None:
    text = ATTENTION.replace("REPEAT", "Expand").replace("SIZES", EXPAND).replace("Q, 4] q", "7, 24] x")
    text = text.replace("Q, ", "7, ").replace("float[1, 6, 7, 24]", "float[1, 7, 24]")
    text = text.replace(", int64[4] h", ", int64[4] w = {1, 7, 6, 4}, int64[4] h")
    text = text.replace("s = MatMul", "r = Reshape(x, w)  q = Transpose<perm = [0, 2, 1, 3]>(r)\n    s = MatMul")
    first, second = products(optimised(text))
    assert "//" not in first + second
    assert "3 *" not in first + second


def test_what_no_product_goes_along_stays() -> None:
    text = """m (float[1, 2, 3, 4] x, float[1, 4, 3, 4] z) => (y) <int64[1] at = {2}, int64[5] e = {1, 2, 2, 3, 4},
        int64[4] h = {1, 4, 3, 4}> { a = Unsqueeze(x, at)  b = Expand(a, e)  c = Reshape(b, h)  y = Add(c, z) }"""
    graph = network(text).graph
    assert repeats(graph, context()) == graph


def test_a_product_that_sums_over_what_is_repeated_stays() -> None:
    text = """m (float[1, 2, 3] x, float[4, 5] w) => (y) <int64[1] at = {2}, int64[4] e = {1, 2, 2, 3},
        int64[3] h = {1, 4, 3}> { a = Unsqueeze(x, at)  b = Expand(a, e)  c = Reshape(b, h)
        d = Transpose<perm = [0, 2, 1]>(c)  y = MatMul(d, w) }"""
    graph = network(text).graph
    assert repeats(graph, context()) == graph
