"""Reductions with a large result between them are joined; others stay apart, unless measured otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.graph.fusion.merge import merge_nodes
from metasched.graph.ir import Graph
from metasched.graph.passes.declaration import PassContext, PassOptions
from metasched.graph.passes.fusion import fusion
from metasched.graph.passes.strips import strip_groups, strips
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
    """What the pass is given on a CPU with such a second cache, and none after it."""
    return PassContext(PassOptions(replace(Target.detect(), l2=l2, l3=0, threads=1), **measured))


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


def test_what_reads_two_large_results_joins_one_of_them() -> None:
    body = """m (float[2, 16, 4] q, float[2, 4, 16] k, float[2, 16, 4] r, float[2, 16, 4] v) => (y) {
        a = MatMul(q, k)  s = Softmax(a)  b = MatMul(r, k)  t = Softmax(b)  u = Transpose<perm = [0, 2, 1]>(t)
        w = MatMul(s, u)
        y = MatMul(w, v)
    }"""
    assert joined(before(body), context(1000)).nodes


def test_measurements_decide_against_the_estimate() -> None:
    graph = before(BLOCK)
    whole = merge_nodes(graph, list(graph.nodes), graph.nodes[-1].outputs).program.structural_hash()
    assert len(list(joined(graph, context(1000, slower_in_strips=frozenset([whole]))).computes)) == 3
    assert len(list(joined(graph, context(1 << 20, faster_in_strips=frozenset([whole]))).computes)) == 1


@pytest.mark.parametrize("body", [BLOCK, ATTENTION])
def test_both_ways_are_open_where_one_cache_is_too_small_and_all_are_not(body: str) -> None:
    graph = before(body)
    two = replace(Target.detect(), l2=2000, l3=0, threads=8)
    (group,) = strip_groups(graph, PassOptions(two))
    assert not group.together
    assert group.nodes == tuple(node.name for node in graph.computes)
    given = PassContext(PassOptions(two, faster_in_strips=frozenset([group.key])))
    (node,) = joined(graph, given).computes
    assert (node.name, node.program.structural_hash()) == (group.nodes[-1], group.key)
    (known,) = strip_groups(graph, given.options)
    assert known == replace(group, together=True)
    assert strip_groups(graph, PassOptions(replace(two, l2=1 << 20))) == ()


def test_half_of_the_last_cache_is_for_what_is_between() -> None:
    graph = before(BLOCK)  # 7776 bytes between
    apart, together = (PassOptions(replace(Target.detect(), l2=1000, l3=l3, threads=1)) for l3 in (16000, 15000))
    assert joined(graph, PassContext(apart)) is graph
    assert len(list(joined(graph, PassContext(together)).computes)) == 1


def test_what_is_joined_by_its_size_is_open_too() -> None:
    graph = before(BLOCK)
    (group,) = strip_groups(graph, context(1000).options)
    assert group.together
    assert group.between == 24 * 81 * 4
    slower = context(1000, slower_in_strips=frozenset([group.key]))
    assert strip_groups(graph, slower.options) == (replace(group, together=False),)


def test_twice_as_many_products_as_are_few_leave_it_open() -> None:
    """100 of them on each element: apart by the estimate, and to be timed; 200 are not worth it."""
    assert [group.together for group in strip_groups(before(WIDE), context(1).options)] == [False]
    assert strip_groups(before(WIDE.replace("100", "200")), context(1).options) == ()
