"""Reductions with a large result between them are joined; others stay apart, unless measured otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.graph.fusion.merge import merged
from metasched.graph.ir import Graph
from metasched.graph.passes.declaration import PassContext, PassOptions
from metasched.graph.passes.fusion import fusion
from metasched.graph.passes.strips import strips
from metasched.target import Target
from tests.support.graphs import network, require_equal

BLOCK = """m (float[1, 8, 9, 9] x, float[24, 8, 1, 1] e, float[24, 1, 3, 3] d, float[8, 24, 1, 1] p) => (y) {
    a = Conv(x, e)
    b = Relu(a)
    c = Conv<group = 24, pads = [1, 1, 1, 1]>(b, d)
    f = Conv(c, p)
    y = Add(f, x)
}"""
ATTENTION = """m (float[2, 16, 4] q, float[2, 4, 16] k, float[2, 16, 4] v) => (y) {
    a = MatMul(q, k)
    b = Softmax(a)
    y = MatMul(b, v)
}"""
WIDE = "m (float[8, 100] x, float[100, 16] w, float[16, 100] v) => (y) { a = MatMul(x, w)  y = MatMul(a, v) }"


def context(l2: int, **measured: frozenset[str]) -> PassContext:
    """What the pass is given on a CPU with such a second cache."""
    return PassContext(PassOptions(replace(Target.detect(), l2=l2, threads=1), **measured))


def before(body: str) -> Graph:
    return fusion(network(body).graph, context(1))


def joined(graph: Graph, given: PassContext) -> Graph:
    made = strips(graph, given)
    made.validate()
    require_equal(graph, made, rtol=1e-4, atol=1e-4)
    return made


@pytest.mark.parametrize("body", [BLOCK, ATTENTION])
def test_what_is_larger_than_the_caches_joins_its_chain(body: str) -> None:
    given = context(1000)
    graph = joined(before(body), given)
    assert len(list(graph.computes)) == 1
    assert any("bytes are between them" in remark for remark in given.remarks)


@pytest.mark.parametrize("body", [BLOCK, ATTENTION])
def test_what_stays_in_the_caches_stays(body: str) -> None:
    graph = before(body)
    assert joined(graph, context(1 << 20)) is graph


def test_much_arithmetic_on_each_element_stays() -> None:
    graph = before(WIDE)
    assert joined(graph, context(1)) is graph


def test_a_result_that_others_read_stays() -> None:
    body = WIDE.replace("=> (y)", "=> (y, a)").replace("100", "10")
    graph = before(body)
    assert joined(graph, context(1)) is graph


def test_measurements_decide_against_the_estimate() -> None:
    graph = before(BLOCK)
    whole = merged(graph, list(graph.nodes), graph.nodes[-1].outputs).program.structural_hash()
    assert len(list(joined(graph, context(1000, slower_in_strips=frozenset([whole]))).computes)) == 3
    assert len(list(joined(graph, context(1 << 20, faster_in_strips=frozenset([whole]))).computes)) == 1
