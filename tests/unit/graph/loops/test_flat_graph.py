"""Graphs whose loops are stretches of their nodes."""

from __future__ import annotations

from metasched.graph.ir import Graph
from metasched.graph.loops.flat_graph import flat, merge_same_arrays
from tests.support.graphs import network
from tests.support.loops import nested

WEIGHTS_TWICE = """m (float[1, 3] x, int64 n) => (y, z) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, bool yes = {1}> {
    z = MatMul(x, w)
    y = Loop(n, yes, x) <body = step (int64 i, bool c, float[1, 3] p) => (bool go, float[1, 3] q) {
        q = MatMul(p, w)
        go = Identity(c)
    }>
}"""


def names_read_before_they_are_made(graph: Graph, given: set[str]) -> list[str]:
    known = {*graph.inputs, *graph.constants, *given}
    wrong = []
    for node in graph.nodes:
        wrong += [name for name in node.inputs if name not in known]
        known.update(node.outputs)
    return wrong


def test_nodes_of_bodies_are_where_their_loops_were() -> None:
    graph = nested().optimised
    found = flat(graph)
    outer, inner = found.loops
    assert (outer.depth, inner.depth) == (0, 1)
    assert outer.first <= inner.first < inner.end <= outer.end == len(found.graph.nodes)
    assert found.outermost == [0]
    assert found.inner_loops(0) == [1]
    given = {loop.counter or "" for loop in found.loops}
    given |= {state.name for loop in found.loops for state in loop.states}
    assert not names_read_before_they_are_made(found.graph, given)
    # A state is what it is after the last step, too.
    assert {state.initial for state in inner.states} == {state.name for state in outer.states}
    assert {state.following for state in outer.states} == {state.name for state in inner.states}
    assert dict(found.graph.outputs)["x"] in {state.name for state in outer.states}
    assert found.assumed_runs(outer.first) == 6
    assert found.assumed_runs(inner.first) == 6 * 32


def test_a_graph_without_loops_is_itself() -> None:
    graph = network("m (float[3] x) => (y) { y = Neg(x) }").graph
    assert flat(graph).graph is graph
    assert merge_same_arrays(flat(graph)).graph is graph


def test_weights_that_are_read_around_a_loop_and_in_it_are_held_once() -> None:
    net = network(WEIGHTS_TWICE)
    found = flat(net.optimised)
    assert len(found.graph.constants) == 2
    assert len(merge_same_arrays(found).graph.constants) == 1
    assert net.optimised.weight_bytes == 36
    assert net.compiled().weights.nbytes < 2 * 64
