"""What is computed twice from the same values is computed once."""

from __future__ import annotations

from metasched.graph.passes.common_subexpressions import common_subexpressions
from tests.support.graphs import context, network, require_equal


def test_equal_chains_are_computed_once() -> None:
    graph = network(
        """m (float[4, 5] x) => (y, z) <int64[1] s = {20}> {
            a = Neg(x)  b = Neg(x)  c = Reshape(a, s)  d = Reshape(b, s)  y = Exp(c)  e = Relu(d)  z = Add(e, d)
        }"""
    ).graph
    given = context()
    made = common_subexpressions(graph, given)
    made.validate()
    assert [node.op for node in made.nodes] == ["Neg", "Reshape", "Exp", "Relu", "Add"]
    assert given.remarks == ["`b` computes what `a` does", "`d` computes what `c` does"]
    require_equal(graph, made)


def test_outputs_that_are_equal_stay_outputs() -> None:
    graph = network("m (float[4, 5] x) => (y, z) { y = Neg(x)  z = Neg(x) }").graph
    made = common_subexpressions(graph, context())
    assert made.outputs == (("y", "y"), ("z", "y"))
    require_equal(graph, made)


def test_what_reads_equal_constants_is_computed_once() -> None:
    graph = network(
        """m (float[2] x) => (y, z, u) <float[2] a = {1.0, 0.0}, float[2] b = {1.0, 0.0}, float[2] c = {1.0, -0.0}> {
            p = Mul(x, a)  y = Exp(p)  q = Mul(x, b)  z = Neg(q)  r = Mul(x, c)  u = Exp(r)
        }"""
    ).graph
    given = context()
    made = common_subexpressions(graph, given)
    made.validate()
    assert given.remarks == ["`q` computes what `p` does"]
    assert sorted(made.constants) == ["a", "c"]
    require_equal(graph, made)


def test_equal_constants_that_different_nodes_read_stay_two() -> None:
    graph = network(
        """m (float[2] x) => (y) <float[2] a = {1.0, 2.0}, float[2] b = {1.0, 2.0}> { p = Mul(x, a)  y = Sub(p, b) }"""
    ).graph
    assert common_subexpressions(graph, context()) is graph
