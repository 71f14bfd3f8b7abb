"""Products of one value with several weights are one product."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.ir import Graph
from metasched.graph.passes.fusion import fusion
from metasched.graph.passes.side_by_side import side_by_side
from tests.support.graphs import context, network, require_equal

ROWS = "float[4, 3] {0} = {{{1}, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}"
WEIGHTS = ", ".join(ROWS.format(name, n) for n, name in enumerate(("u", "v", "w"))) + (
    ", float[3] b = {1, 2, 3}, float[3] c = {4, 5, 6}, float[3] d = {7, 8, 9}"
)


def joined(body: str) -> Graph:
    """The graph of a network after fusion and the pass, which computes the same."""
    graph = network(body).graph
    made = side_by_side(fusion(graph, context()), context())
    made.validate()
    require_equal(graph, made)
    return made


def test_queries_keys_and_values_are_one_product() -> None:
    graph = joined(
        f"""m (float[5, 4] x) => (y) <{WEIGHTS}> {{
            q = MatMul(x, u)  p = Add(q, b)  k = MatMul(x, v)  l = Add(k, c)  w_ = MatMul(x, w)  r = Add(w_, d)
            s = Softmax(p)  t = Softmax(l)  h = Softmax(r)  z = Mul(s, t)  y = Mul(z, h)
        }}"""
    )
    assert [node.op for node in graph.computes].count("MatMul+Add") == 1
    assert [node.op for node in graph.computes].count("Slice") == 3
    product = next(node for node in graph.computes if node.op == "MatMul+Add")
    assert str(product.program).splitlines()[0].endswith("const B: f32[4, 9], const C: f32[9]) -> Y: f32[5, 9]:")
    np.testing.assert_array_equal(graph.constants[product.inputs[1]][0], [0, 2, 3, 1, 2, 3, 2, 2, 3])


def test_channels_of_convolutions_are_joined() -> None:
    weights = "float[2, 3, 1, 1] {0} = {{1, 2, 3, 4, 5, {1}}}"
    given = ", ".join(weights.format(name, n) for n, name in enumerate(("u", "v")))
    graph = joined(
        f"""m (float[1, 3, 4, 4] x) => (y) <{given}> {{
            a = Conv(x, u)  b = Conv(x, v)  c = MaxPool<kernel_shape = [2, 2]>(a)
            d = MaxPool<kernel_shape = [2, 2]>(b)
            y = Sub(c, d)
        }}"""
    )
    assert [node.op for node in graph.computes].count("Conv") == 1


@pytest.mark.parametrize(
    "body",
    [
        # Results of the network are arrays of their own.
        f"m (float[5, 4] x) => (a, b) <{WEIGHTS}> {{ a = MatMul(x, u)  b = MatMul(x, v) }}",
        # Different values.
        f"""m (float[5, 4] x, float[5, 4] y) => (z) <{WEIGHTS}> {{
            a = MatMul(x, u)  b = MatMul(y, v)  c = Exp(a)  d = Softmax(b)  e = Softmax(c)  z = Mul(d, e)
        }}""",
        # No product.
        f"m (float[5, 3] x) => (z) <{WEIGHTS}> {{ a = Add(x, b)  e = Add(x, c)  f = Softmax(a)  z = Mul(f, e) }}",
    ],
)
def test_what_stays_apart(body: str) -> None:
    assert not [node for node in joined(body).computes if node.op == "Slice"]
