"""Concatenations and slices in place: what lies where, and that results stay what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from metasched.graph.code.kernels import kernels
from metasched.graph.ir import Compute, Graph, GraphError, InPlace
from metasched.graph.passes.parts import parts
from metasched.graph.placement import ValuePart
from metasched.graph.running.planning import executable
from tests.support.graphs import by_reference, context, network, random_inputs


def placed(body: str) -> tuple[ms.Network, Graph]:
    """A network, and its graph with values in place and nothing else done: it gives the results of the reference."""
    net = network(body)
    made = parts(net.graph, context())
    made.validate()
    inputs = random_inputs(net.graph)
    expected = by_reference(net.graph, inputs)
    run = executable(made, kernels(made, {}, net.target), net.target).run([inputs[name] for name in made.inputs])
    for a, b in zip(run, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return net, made


def copies(graph: Graph) -> int:
    """How many nodes are programs that only copy."""
    return sum(node.op in ("Concat", "Slice", "Split") for node in graph.nodes if isinstance(node, Compute))


def test_what_is_joined_along_the_outermost_dimension_is_computed_in_place() -> None:
    _, graph = placed("m (float[1, 3, 5] x) => (y) { a = Relu(x) b = Neg(x) c = Concat<axis=1>(a, b) y = Exp(c) }")
    assert copies(graph) == 0
    assert graph.parts == {"a": ValuePart("c", 0, (15, 5, 1)), "b": ValuePart("c", 15, (15, 5, 1))}
    assert [type(node) for node in graph.nodes] == [Compute, Compute, InPlace, Compute]
    assert len(graph.kernels) == 3
    assert "b lies in c from element 15 on, strides [15, 5, 1]" in str(graph)


def test_rows_of_whole_cache_lines_are_joined_in_place() -> None:
    _, graph = placed("m (float[4, 16] x) => (y) { a = Relu(x) b = Neg(x) c = Concat<axis=1>(a, b, a) y = Exp(c) }")
    assert graph.parts["a"] == ValuePart("c", 0, (48, 1))
    assert graph.parts["b"] == ValuePart("c", 16, (48, 1))
    assert copies(graph) == 1, "`a` is in one place, and copied to the other"
    assert len(graph.tasks) == 4
    assert len(graph.kernels) == 4


def test_short_rows_are_copied() -> None:
    _, graph = placed("m (float[4, 15] x) => (y) { a = Relu(x) b = Neg(x) c = Concat<axis=1>(a, b) y = Exp(c) }")
    assert copies(graph) == 1
    assert not graph.parts


def test_inputs_are_copied_beside_what_is_in_place() -> None:
    _, graph = placed("m (float[2, 16] x, float[1, 16] z) => (c) { a = Relu(x) c = Concat<axis=0>(z, a) }")
    assert graph.parts == {"a": ValuePart("c", 16, (16, 1)), "c.0": ValuePart("c", 0, (16, 1))}
    _, graph = placed("m (float[2, 16] x, float[3, 16] z) => (c) { a = Relu(x) c = Concat<axis=0>(z, a) }")
    assert not graph.parts, "most of it would be copied"


def test_concatenations_of_concatenations_are_in_place() -> None:
    _, graph = placed(
        """m (float[4, 16] x) => (y, z) {
            a = Relu(x)  b = Neg(x)  c = Concat<axis=1>(a, b)
            d = Exp(c)   e = Concat<axis=1>(c, d)  z = Neg(c)  y = Relu(e)
        }"""
    )
    assert copies(graph) == 0
    assert graph.parts["c"] == ValuePart("e", 0, (64, 1))
    assert graph.parts["b"] == ValuePart("c", 16, (64, 1))


def test_a_shorter_concatenation_of_the_same_values_is_a_part_of_the_longer() -> None:
    _, graph = placed(
        """m (float[4, 16] x) => (y, z) {
            a = Relu(x)  b = Neg(x)  c = Concat<axis=1>(a, b)
            d = Exp(c)   e = Concat<axis=1>(a, b, d)  z = Neg(c)  y = Relu(e)
        }"""
    )
    assert copies(graph) == 0
    assert graph.parts["c"] == ValuePart("e", 0, (64, 1))


def test_values_in_another_order_are_no_part_of_a_longer_concatenation() -> None:
    _, graph = placed(
        """m (float[4, 16] x) => (y, z) {
            a = Relu(x)  b = Neg(x)  c = Concat<axis=1>(b, a)
            e = Concat<axis=1>(a, b)  z = Neg(c)  y = Relu(e)
        }"""
    )
    assert copies(graph) == 1


def test_slices_are_read_where_they_are() -> None:
    _, graph = placed(
        """m (float[4, 96] x) => (y, z) <int64[3] s = {32, 32, 32}> {
            h = Relu(x)
            q, k, v = Split<axis=1>(h, s)
            y = Mul(q, k)  z = Exp(v)
        }"""
    )
    assert copies(graph) == 0
    assert graph.parts["q.1"] == ValuePart("h", 32, (96, 1))


def test_views_of_parts_have_their_strides() -> None:
    _, graph = placed(
        """m (float[4, 96] x) => (y) <int64[3] s = {32, 32, 32}, int64[3] t = {4, 2, 16}> {
            h = Relu(x)
            q, k, v = Split<axis=1>(h, s)
            r = Reshape(q, t)  w = Reshape(v, t)
            y = Mul(r, w)
        }"""
    )
    assert copies(graph) == 0
    assert graph.parts["w"] == ValuePart("q.2", 0, (96, 16, 1))


def test_parts_that_cannot_be_viewed_are_copied() -> None:
    _, graph = placed(
        """m (float[4, 64] x) => (y, z) <int64[2] s = {32, 32}, int64[1] t = {128}> {
            h = Relu(x)
            q, k = Split<axis=1>(h, s)
            r = Reshape(q, t)  y = Neg(r)  z = Neg(k)
        }"""
    )
    assert copies(graph) == 1
    assert set(graph.parts) == {"q.1"}


def test_a_view_is_joined_in_place() -> None:
    _, graph = placed(
        """m (float[4, 32] x) => (y) <int64[3] t = {4, 2, 16}> {
            a = Relu(x)  r = Reshape(a, t)  q = Neg(r)
            c = Concat<axis=1>(r, q)  y = Exp(c)
        }"""
    )
    assert copies(graph) == 0
    assert graph.parts["r"] == ValuePart("c", 0, (64, 16, 1))
    assert graph.parts["a"] == ValuePart("r", 0, (64, 1))


def test_results_lie_as_callers_take_them() -> None:
    _, graph = placed("m (float[4, 16] x) => (a, c) { a = Relu(x) b = Neg(x) c = Concat<axis=1>(a, b) }")
    assert "a" not in graph.parts
    _, graph = placed("m (float[2, 16] x) => (a, c) { a = Relu(x) b = Neg(x) c = Concat<axis=0>(a, b) }")
    assert graph.parts["a"] == ValuePart("c", 0, (16, 1))


@pytest.mark.parametrize(
    "part",
    [
        ValuePart("c", 40, (15, 5, 1)),  # beyond its end
        ValuePart("b", 0, (15, 5, 1)),  # of itself
        ValuePart("nothing", 0, (15, 5, 1)),
        ValuePart("c", 0, (15, 4, 1)),  # rows overlap
    ],
)
def test_a_part_that_is_none_is_a_defect(part: ValuePart) -> None:
    graph = network("m (float[1, 3, 5] x) => (y) { a = Relu(x) b = Neg(x) c = Concat<axis=1>(a, b) y = Exp(c) }").graph
    made = parts(graph, context())
    with pytest.raises(GraphError):
        replace(made, parts={**made.parts, "b": part}).validate()


def test_what_reads_a_concatenation_is_not_joined_with_it() -> None:
    net = network(
        """m (float[8, 8] x) => (y) {
            a = MatMul(x, x) b = MatMul(a, x) c = Concat<axis=0>(a, b) d = Exp(c) y = Neg(d)
        }"""
    )
    assert [node.op for node in net.optimised.computes] == ["MatMul", "MatMul", "Exp+Neg"]
