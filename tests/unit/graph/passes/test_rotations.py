"""Parts of a value that change places are read by an index with a remainder, and results stay the same."""

from __future__ import annotations

import pytest

from metasched.graph.ir import Graph
from metasched.graph.passes.fusion import fusion
from metasched.graph.passes.movement import movement
from metasched.graph.passes.rotations import rotated_index, rotations
from metasched.ir.nodes import BinOp
from metasched.ir.source import IntLit, Name, Operation
from tests.support.graphs import context, network, require_equal

SHIFT = """m (float[6, 5, 32] x) => (y) <int64[1] a = {%d}, int64[1] f = {0}, int64[1] s = {%d}, int64[1] e = {100}> {
    b = %s(x)
    p = Slice(b, s, e, a)  q = Slice(b, f, s, a)  r = Concat<axis = %d>(p, q)
    y = %s(r)
}"""


def rotated(body: str) -> tuple[Graph, list[str]]:
    graph, given = network(body).graph, context()
    made = rotations(movement(graph, context()), given)
    made.validate()
    require_equal(graph, made)
    return made, given.remarks


@pytest.mark.parametrize(("axis", "by"), [(0, 2), (0, 5), (1, 1)])
def test_a_rotation_is_an_index_with_a_remainder(axis: int, by: int) -> None:
    graph, remarks = rotated(SHIFT % (axis, by, "Exp", axis, "Neg"))
    extent = (6, 5)[axis]
    assert any(f"(i{axis} + {by}) % {extent}" in str(node.program) for node in graph.computes)
    assert len(remarks) == 1


def test_the_innermost_dimension_stays_in_two_parts() -> None:
    graph, remarks = rotated(SHIFT % (2, 3, "Exp", 2, "Neg"))
    assert "%" not in str(graph)
    assert not remarks


@pytest.mark.parametrize(
    "parts",
    [
        "p = Slice(x, s, e, a)  q = Slice(x, s, e, a)",  # one part twice
        "p = Slice(x, f, s, a)  q = Slice(x, s, e, a)",  # in their order
        "p = Slice(x, s, e, a)  q = Slice(w, f, s, a)",  # of two values
    ],
)
def test_what_is_no_rotation(parts: str) -> None:
    body = f"""m (float[6, 5, 32] x, float[6, 5, 32] w) => (y)
        <int64[1] a = {{0}}, int64[1] f = {{0}}, int64[1] s = {{2}}, int64[1] e = {{100}}> {{
        {parts}  y = Concat<axis = 0>(p, q)
    }}"""
    assert not rotated(body)[1]


def test_nodes_around_a_rotation_are_one_kernel_but_for_a_product() -> None:
    graph, _ = rotated(SHIFT % (0, 2, "Exp", 0, "Neg"))
    assert len(list(fusion(graph, context()).computes)) == 1
    product = SHIFT.replace("b = %s(x)", "b = MatMul(x, x2)").replace("32] x)", "32] x, float[32, 32] x2)")
    graph, _ = rotated(product % (0, 2, 0, "Neg"))
    made = fusion(graph, context())
    require_equal(graph, made, rtol=1e-4)
    assert len(list(made.computes)) == 2


def test_a_border_that_goes_on_at_the_other_end_is_no_rotation() -> None:
    """It has elements twice, which would be computed as often."""
    body = (
        """m (float[32, 200] x) => (y) <int64[4] p = {64, 0, 0, 0}> { e = Softmax(x)  y = Pad<mode = "wrap">(e, p) }"""
    )
    graph, _ = rotated(body)
    given = context()
    assert len(list(fusion(graph, given).computes)) == 2
    assert given.remarks


def test_rotated_by() -> None:
    index = Operation(BinOp.MOD, Operation(BinOp.ADD, Name("i"), IntLit(3)), IntLit(8))
    assert rotated_index(index, 8) == "i"
    assert rotated_index(index, 9) is None
    assert rotated_index(Name("i"), 8) is None
