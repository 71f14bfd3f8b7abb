"""What no step of a loop changes, before it."""

from __future__ import annotations

from metasched.graph.loop_node import LoopInputKind
from metasched.graph.passes.loop_invariants import loop_invariants
from tests.support.graphs import context, network, require_equal

# The inner loop's body is imported in that of the outer, which changes nothing of `product`.
TEXT = """m (float[2, 3] x, float[3, 3] k, int64 n) => (y) <int64 most = {4}, bool yes = {1}, float tiny = {0.001}> {
    y = Loop(most, yes, x) <body = outer (int64 i, bool c, float[2, 3] p) => (bool go, float[2, 3] q) {
        q = Loop(n, yes, p) <body = inner (int64 j, bool d, float[2, 3] r) => (bool on, float[2, 3] s) {
            product = MatMul(k, k)
            scores = Tanh(product)
            moved = MatMul(r, scores)
            s = Tanh(moved)
            on = Identity(d)
        }>
        largest = ReduceMax<keepdims = 0>(q)
        go = Greater(largest, tiny)
    }>
}"""


def test_it_leaves_the_loops_that_do_not_change_it() -> None:
    graph = network(TEXT).graph
    (outer,) = graph.loops
    assert "Tanh" in {node.op for node in outer.body.computes}
    after = loop_invariants(graph, context())
    after.validate()
    assert [node.op for node in after.computes] == ["MatMul", "Tanh"]
    (outer,) = after.loops
    (inner,) = outer.body.loops
    assert [node.op for node in outer.body.computes] == ["ReduceMax", "Greater"]
    assert [node.op for node in inner.body.computes] == ["MatMul", "Tanh"]
    # Of what is not read any more, nothing is taken.
    assert "k" not in {name for name, _ in outer.inputs_of_kind(LoopInputKind.WHOLE)}
    require_equal(graph, after)


def test_what_is_much_larger_than_what_it_is_computed_from_stays() -> None:
    table = "table = Mul(column, row)"
    text = f"""m (float[2, 300] x, float[300, 1] column, float[1, 300] row, int64 n) => (y)
      <int64 most = {{4}}, bool yes = {{1}}, float tiny = {{0.001}}> {{
        y = Loop(most, yes, x) <body = outer (int64 i, bool c, float[2, 300] p) => (bool go, float[2, 300] q) {{
            q = Loop(n, yes, p) <body = inner (int64 j, bool d, float[2, 300] r) => (bool on, float[2, 300] s) {{
                {table}
                moved = MatMul(r, table)
                s = Tanh(moved)
                on = Identity(d)
            }}>
            largest = ReduceMax<keepdims = 0>(q)
            go = Greater(largest, tiny)
        }}>
    }}"""
    after = loop_invariants(network(text).graph, context())
    assert [node.op for node in after.computes] == []
    small = loop_invariants(network(text.replace("300", "30")).graph, context())
    assert [node.op for node in small.computes] == ["Mul"]
