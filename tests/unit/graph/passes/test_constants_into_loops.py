"""What a loop reads that is computed of constants alone, in its body."""

from __future__ import annotations

from metasched.graph.passes.constants_into_loops import constants_into_loops
from tests.support.graphs import context, network, require_equal

TEXT = """m (float[2, 64] x, int64 n) => (y, z)
  <bool yes = {1}, float scale = {0.02}, int64[2] shape = {64, 64}, int8 zero = {0}> {
    weights = ConstantOfShape<value = int8[1] {3}>(shape)
    w = DequantizeLinear(weights, scale, zero)
    z = MatMul(x, w)
    from_x = Neg(x)
    y = Loop(n, yes, x) <body = step (int64 i, bool c, float[2, 64] p) => (bool go, float[2, 64] q) {
        go = Identity(c)
        product = MatMul(p, w)
        q = Add(product, from_x)
    }>
}"""


def test_it_is_computed_there_and_stays_where_others_read_it() -> None:
    graph = network(TEXT).graph
    after = constants_into_loops(graph, context())
    after.validate()
    (before_loop,), (loop,) = graph.loops, after.loops
    assert [node.op for node in before_loop.body.computes] == ["MatMul", "Add"]
    assert [node.op for node in loop.body.computes] == ["DequantizeLinear", "MatMul", "Add"]
    assert [node.op for node in after.computes] == ["DequantizeLinear", "MatMul", "Neg"]
    # What is computed of data stays before the loop.
    assert "from_x" in loop.inputs
    assert "w" not in loop.inputs
    require_equal(graph, after)


def test_it_goes_through_loops_to_where_it_is_read() -> None:
    text = """m (float[2, 64] x, int64 n) => (y)
      <bool yes = {1}, float scale = {0.02}, int64[2] shape = {64, 64}, int8 zero = {0}> {
        weights = ConstantOfShape<value = int8[1] {3}>(shape)
        w = DequantizeLinear(weights, scale, zero)
        y = Loop(n, yes, x) <body = outer (int64 i, bool c, float[2, 64] p) => (bool go, float[2, 64] q) {
            go = Identity(c)
            q = Loop(n, yes, p) <body = inner (int64 j, bool d, float[2, 64] r) => (bool on, float[2, 64] s) {
                on = Identity(d)
                s = MatMul(r, w)
            }>
        }>
    }"""
    net = network(text)
    (outer,) = net.optimised.loops
    (inner,) = outer.body.loops
    assert not list(net.optimised.computes)
    assert not list(outer.body.computes)
    assert {array.dtype.name for array in inner.body.constants.values()} == {"float32"}
    assert outer.inputs == ("n", "x", "n")
