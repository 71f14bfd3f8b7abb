"""Values of f16 that products read many times are kept in f32 between kernels, and results stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.ir import Graph, ShapeView
from metasched.graph.passes.wide_factors import wide_factors
from tests.support.graphs import by_reference, context, network, random_inputs

MLP = "m (float16[4, 8] x, float16[8, 32] w, float16[32, 24] u) => (y) {{ a = MatMul(x, w)  r = Relu(a)  {rest} }}"
ONE_PRODUCT = MLP.format(rest="y = MatMul(r, u)")
ALSO_NEGATED = MLP.format(rest="y = MatMul(r, u)  z = Neg(r)").replace("=> (y)", "=> (y, z)")
ALSO_GIVEN = MLP.format(rest="y = MatMul(r, u)").replace("=> (y)", "=> (y, r)")
VIEWED = MLP.format(rest="v = Flatten <axis: int = 1> (r)  y = MatMul(v, u)")
JOINED = """m (float16[8, 16] x, float16[16, 32] w, float16[64, 24] u) => (y) {
    a = MatMul(x, w)  r = Relu(a)  t = Tanh(a)  j = Concat <axis: int = 1> (PARTS)  y = MatMul(j, u)
}"""
COMPUTED_JOINED = JOINED.replace("PARTS", "r, t")
ALSO_READ = COMPUTED_JOINED.replace("y = MatMul(j, u)", "y = MatMul(j, u)  z = Neg(t)").replace("(y)", "(y, z)")
GIVEN_JOINED = JOINED.replace("PARTS", "r, x, x")
FEW_COLUMNS = "m (float16[4, 8] x, float16[8, 3] w) => (y) { r = Relu(x)  y = MatMul(r, w) }"


def widened(body: str) -> tuple[Graph, Graph]:
    """A network's graph as it is imported, and with wide factors."""
    graph = network(body).graph
    return graph, wide_factors(graph, context())


def wide_values(body: str) -> int:
    """How many values are of f32, views left out; results are required to stay what they were."""
    graph, wide = widened(body)
    wide.validate()
    inputs = random_inputs(graph)
    for a, b in zip(by_reference(graph, inputs), by_reference(wide, inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    views = {node.output for node in graph.nodes if isinstance(node, ShapeView)}
    return sum(type_.dtype is DType.F32 for name, type_ in wide.types.items() if name not in views)


@pytest.mark.parametrize("body", [ONE_PRODUCT, ALSO_NEGATED, VIEWED])
def test_what_a_product_reads_many_times_is_f32(body: str) -> None:
    assert wide_values(body) == 1


@pytest.mark.parametrize("body", [ALSO_GIVEN, FEW_COLUMNS])
def test_what_is_returned_or_read_a_few_times_stays(body: str) -> None:
    assert wide_values(body) == 0


@pytest.mark.parametrize("body", [COMPUTED_JOINED, ALSO_READ])
def test_what_is_joined_is_f32_with_the_result_and_only_moved(body: str) -> None:
    """Else it could not be computed where it is joined, and would be copied."""
    assert wide_values(body) == 3
    _, wide = widened(body)
    (join,) = (node for node in wide.computes if node.op == "Concat")
    assert "f16" not in str(join.program)


def test_what_is_joined_with_an_input_stays() -> None:
    assert wide_values(GIVEN_JOINED) == 0


def test_a_literal_of_f16_that_is_moved_to_f32_is_rounded() -> None:
    tenth = np.array(0.1, np.float16).view(np.uint16)
    body = f"""m (float16[4, 8] x, float16[32, 24] u) => (y)
        <float16 tenth = {{{tenth}}}, int64[4] around = {{0, 0, 0, 24}}> {{
        a = Relu(x)  b = Pad(a, around, tenth)  y = MatMul(b, u) }}"""
    assert wide_values(body) == 1
