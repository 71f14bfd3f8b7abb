"""What constants do to values is worked out ahead."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.graph.ir import Graph
from metasched.graph.passes.fusion import fusion
from metasched.graph.passes.scales_into_weights import scales_into_weights
from tests.support.graphs import by_reference, context, network, require_equal

NORM = "float[3] s = {1, 2, 3}, float[3] b = {4, 5, 6}, float[3] m = {7, 8, 9}, float[3] v = {1, 2, 4}"
ONES = ", ".join(["1", "2", "3", "-1"] * 3)


def folded(body: str) -> Graph:
    """The graph of a network after fusion and the pass, which computes the same."""
    graph = network(body).graph
    made = scales_into_weights(fusion(graph, context()), context())
    made.validate()
    require_equal(graph, made)
    return made


def last_line(graph: Graph) -> str:
    (node,) = graph.computes
    return str(node.program).splitlines()[-1].strip()


WEIGHTS = f"float[4, 3] w = {{{ONES}}}"
CASES = {
    # The weights of a convolution, with a bias of its own.
    f"""m (float[1, 4, 5, 5] x) => (y) <float[3, 4, 1, 1] w = {{{ONES}}}, float[3] c = {{1, 2, 3}}, {NORM}> {{
        a = Conv(x, w, c)  n = BatchNormalization(a, s, b, m, v)  y = Relu(n)
    }}""": "Y[i0, i1, i2, i3] = max(T0[i0, i1, i2, i3] + C[i1], 0)",
    # Columns of a matrix.
    f"""m (float[5, 4] x) => (y) <{WEIGHTS}, {NORM}> {{
        a = MatMul(x, w)  n = BatchNormalization(a, s, b, m, v)  y = Relu(n)
    }}""": "Y[i0, i1] = max(T0[i0, i1] + C[i1], 0)",
    # Nothing to put a factor into.
    f"m (float[2, 3, 4] x) => (y) <{NORM}> {{ n = BatchNormalization(x, s, b, m, v)  y = Relu(n) }}":
        "Y[i0, i1, i2] = max(A[i0, i1, i2] * B[i1] + C[i1], 0)",
    # A factor along a dimension that the weights have not.
    f"m (float[3, 4] x) => (y) <{WEIGHTS}, float[3, 1] s = {{2, 3, 4}}> {{ a = MatMul(x, w)  y = Mul(a, s) }}":
        "Y[i0, i1] = T0[i0, i1] * C[i0, 0]",
    # An activation that reads the value twice, in one form; and in two forms.
    f"""m (float[5, 4] x) => (y) <{WEIGHTS}, {NORM}> {{
        a = MatMul(x, w)  n = BatchNormalization(a, s, b, m, v)  g = Sigmoid(n)  y = Mul(n, g)
    }}""": "Y[i0, i1] = (T0[i0, i1] + C[i1]) * sigmoid(T0[i0, i1] + C[i1])",
    f"""m (float[5, 4] x) => (y) <{WEIGHTS}, float[3] b = {{4, 5, 6}}, float h = {{0.5}}> {{
        a = MatMul(x, w)  n = Add(a, b)  e = Mul(n, h)  f = Erf(e)  y = Mul(n, f)
    }}""": "Y[i0, i1] = (T0[i0, i1] + C[i1]) * erf((T0[i0, i1] + C[i1]) * 0.5)",
    # A factor that is one number.
    f"m (float[3, 4] x) => (y) <{WEIGHTS}, float s = {{3}}> {{ a = MatMul(x, w)  y = Mul(a, s) }}":
        "Y[i0, i1] = sum[r0 < 4](A[i0, r0] * B[r0, i1])",
}  # fmt: skip


@pytest.mark.parametrize(("body", "line"), CASES.items())
def test_factors_and_offsets(body: str, line: str) -> None:
    assert last_line(folded(body)) == line


MAGIC = "float[3] c = {12582912, 12582912, 0.5}"
LEFT_ALONE = {
    # Adding and taking away a large number rounds.
    f"m (float[4, 3] x) => (y) <{MAGIC}> {{ a = Add(x, c)  y = Sub(a, c) }}":
        "Y[i0, i1] = A[i0, i1] + B[i1] - B[i1]",
    # The factor before it goes into the weights all the same.
    f"""m (float[5, 4] x) => (y) <{WEIGHTS}, float[3] s = {{1, 2, 3}}, float c = {{12582912}}> {{
        p = MatMul(x, w)  q = Mul(p, s)  a = Add(q, c)  y = Sub(a, c)
    }}""": "Y[i0, i1] = T0[i0, i1] + 12582912.0 - 12582912.0",
    # A product of factors that is infinite.
    "m (float[4, 3] x) => (y) <float[3] c = {1e30, 1, 1}> { a = Mul(x, c)  y = Mul(a, c) }":
        "Y[i0, i1] = A[i0, i1] * B[i1] * B[i1]",
}  # fmt: skip


@pytest.mark.parametrize(("body", "line"), LEFT_ALONE.items(), ids=["rounds", "rounds a product", "infinite"])
def test_chains_that_do_more_than_a_factor_and_an_offset_stay(body: str, line: str) -> None:
    graph = network(body).graph
    assert last_line(scales_into_weights(fusion(graph, context()), context())) == line


def test_rounding_by_a_large_number_is_kept() -> None:
    rounds = network(f"m (float[2, 3] x) => (y) <{MAGIC}> {{ a = Add(x, c)  y = Sub(a, c) }}")
    x = np.array([[0.3, 1.7, 0.25], [100.49, -2.6, 3]], np.float32)
    np.testing.assert_array_equal(rounds(x), [[0, 2, 0.25], [100, -3, 3]])


BYTES = "float t = {0.3}, uint8 z = {3}"


def test_what_is_rounded_to_bytes_is_scaled_once() -> None:
    body = f"m (float[2, 3] x) => (y) <{NORM}, {BYTES}> {{ n = Mul(x, s)  a = Add(n, b)  y = QuantizeLinear(a, t, z) }}"
    graph = network(body).graph
    made = scales_into_weights(fusion(graph, context()), context())
    assert last_line(made) == "Y[i0, i1] = u8(min(max(rint(A[i0, i1] * B[i1] + C[i1]) + f32(D[]), 0.0), 255.0))"
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    (before,), (after,) = by_reference(graph, {"x": x}), by_reference(made, {"x": x})
    np.testing.assert_array_equal(before, after)


def test_what_is_cut_off_to_bytes_stays() -> None:
    """Step by step 3 / 10 * 10 is 3, and 3 times what the two are together may be a little less."""
    body = f"""m (float[2, 3] x) => (y) <{NORM}, float t = {{10}}> {{
        n = Div(x, t)  a = Mul(n, t)  c = Mul(a, s)  y = Cast<to = 2>(c)
    }}"""
    made = scales_into_weights(fusion(network(body).graph, context()), context())
    assert last_line(made) == "Y[i0, i1] = u8(A[i0, i1] / 10.0 * 10.0 * B[i1])"


def test_what_is_only_divided_before_it_is_rounded_stays() -> None:
    """So 1.5 times a scale is halfway between two bytes."""
    body = f"m (float[2, 3] x) => (y) <{BYTES}> {{ y = QuantizeLinear(x, t, z) }}"
    made = scales_into_weights(fusion(network(body).graph, context()), context())
    assert "rint(A[i0, i1] / B[])" in last_line(made)


def test_weights_that_others_read_stay() -> None:
    graph = folded(
        f"m (float[5, 4] x) => (y, z) <float[4, 3] w = {{{ONES}}}, float[3] s = {{1, 2, 3}}>"
        "{ a = MatMul(x, w)  y = Mul(a, s)  b = Neg(x)  z = MatMul(b, w) }"
    )
    assert [line for node in graph.computes for line in str(node.program).splitlines() if "C[i1]" in line]
    np.testing.assert_array_equal(graph.constants["w"].reshape(-1)[:4], [1, 2, 3, -1])


def test_what_is_computed_in_another_type_stays() -> None:
    graph = ms.jit(lambda x: np.remainder(x, 0.0)).graph(np.ones(3, np.float32))
    made = scales_into_weights(graph, context())
    assert made.nodes == graph.nodes
    assert made.constants.keys() == graph.constants.keys()


def test_a_norm_of_a_part_of_a_concatenation_keeps_to_its_part() -> None:
    folded(
        f"""m (float[1, 3, 5] x, float[1, 2, 5] z) => (c) <{NORM}> {{
            n = BatchNormalization(x, s, b, m, v)  c = Concat<axis = 1>(n, z)
        }}"""
    )
