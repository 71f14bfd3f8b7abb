"""Elementwise nodes are joined with what computes their inputs, and nothing else is."""

from __future__ import annotations

from collections import Counter

import pytest

from metasched.graph.ir import Graph
from metasched.graph.passes.fusion import _Group, _Grouping, _Source, fusion
from tests.support.graphs import context, network, require_equal


def fused(body: str, opset: int = 22) -> tuple[Graph, list[str]]:
    """The graph of a network after the pass, which computes the same, and the pass's remarks."""
    graph, given = network(body, opset).graph, context()
    made = fusion(graph, given)
    made.validate()
    require_equal(graph, made)
    return made, given.remarks


def texts(graph: Graph) -> list[str]:
    """The programs of a graph, without their first lines."""
    return ["\n".join(str(node.program).splitlines()[1:]) for node in graph.computes]


CONV = """m (float[1, 2, 4, 4] x, float[1, 3, 4, 4] r, float[3, 2, 3, 3] w, float[3] b) => (y) {
    c = Conv<pads = [1, 1, 1, 1]>(x, w, b)
    s = Add(r, c)
    y = Relu(s)
}"""


def test_bias_residual_and_activation_join_a_convolution() -> None:
    graph, _ = fused(CONV)
    (text,) = texts(graph)
    assert text.splitlines()[-1].strip() == (
        "Y[i0, i1, i2, i3] = max(T1[i0, i1, i2, i3] + C[i1] + D[i0, i1, i2, i3], 0)"
    )


def test_a_value_that_is_read_twice_by_one_chain_stays_inside() -> None:
    graph, _ = fused("m (float[4, 5] x, float[5, 6] w) => (y) { a = MatMul(x, w)  s = Sigmoid(a)  y = Mul(a, s) }")
    (text,) = texts(graph)
    assert "Y[i0, i1] = T0[i0, i1] * sigmoid(T0[i0, i1])" in text


def test_equal_chains_are_one_task_whatever_the_order_of_a_sum() -> None:
    graph, _ = fused(
        """m (float[4, 4] x, float[4, 4] w) => (z) {
            a = MatMul(x, w)  b = Add(a, x)  y = Relu(b)
            c = MatMul(y, w)  d = Add(y, c)  z = Relu(d)
        }"""
    )
    assert [len(nodes) for nodes in graph.tasks.values()] == [2]


def test_operands_that_are_one_value_are_two_inputs_of_a_product() -> None:
    """Each may be copied for itself then. A sum of squares has one operand."""
    graph, _ = fused('m (float[4, 5] x) => (y) { y = Einsum<equation = "ik, jk -> ij">(x, x) }')
    (node,) = graph.computes
    assert "sum[r0 < 5](A[i0, r0] * B[i1, r0])" in texts(graph)[0]
    assert node.inputs == ("x", "x")
    graph, _ = fused('m (float[4, 5] x) => (y) { y = Einsum<equation = "ik, ik -> i">(x, x) }')
    (node,) = graph.computes
    assert node.inputs == ("x",)


def test_a_product_of_a_column_and_a_row_is_elementwise() -> None:
    body = "a = MatMul(x, w)  s = Add(a, b)  y = Cos(s)"
    graph, _ = fused(f"m (float[4, 1] x, float[1, 5] w, float[5] b) => (y) {{ {body} }}")
    assert texts(graph) == ["    Y[i0, i1] = cos(A[i0, 0] * B[0, i1] + C[i1])"]


GATES = """m (float[4, 5] x, float[5, 2, 3] w) => (y) <int64 zero = {{0}}, int64 one = {{1}}> {{
    v = Einsum<equation = "ik, kgj -> igj">(x, w)
    g = Gather<axis = 1>(v, zero)  h = {other}  t = Tanh(h)  y = Mul(g, t)
}}"""


def test_gates_of_a_product_are_computed_with_what_reads_them() -> None:
    graph, _ = fused(GATES.format(other="Gather<axis = 1>(v, one)"))
    (text,) = texts(graph)
    assert "Y[i0, i1] = T0[i0, 0, i1] * tanh(T0[i0, 1, i1])" in text
    graph, remarks = fused(GATES.format(other="ReduceMax<keepdims = 0>(v, one)"))
    assert len(texts(graph)) == 2
    assert any("does not read each element of `v` once" in remark for remark in remarks)


def test_views_and_transposes_are_read_through() -> None:
    graph, _ = fused(
        """m (float[4, 6] x, float[6, 6] w) => (y) <int64[3] s = {4, 2, 3}> {
            a = MatMul(x, w)  v = Reshape(a, s)  y = Transpose<perm = [1, 0, 2]>(v)
        }"""
    )
    (text,) = texts(graph)
    assert "Y[i0, i1, i2] = T0[i1, 3 * i0 + i2]" in text


@pytest.mark.parametrize(
    ("body", "kernels", "reason"),
    [
        ("m (float[4, 5] x) => (y, a) { a = Neg(x)  y = Relu(a) }", 2, "`a` is a result of the network"),
        ("m (float[4, 5] x) => (y, z) { a = Neg(x)  y = Relu(a)  z = Exp(a) }", 3, "`a` is read by others, too"),
        ("m (float[4, 3] x, float[3, 1] w, float[1, 3] b) => (y) { a = MatMul(x, w)  y = Add(a, b) }",
         2, "does not read each element of `a` once"),
    ],
)  # fmt: skip
def test_what_stays_apart_and_why(body: str, kernels: int, reason: str) -> None:
    graph, remarks = fused(body)
    assert len(texts(graph)) == kernels
    assert any(reason in remark for remark in remarks)


@pytest.mark.parametrize(("nodes", "kernels"), [(60, 1), (100, 2)])
def test_long_chains_are_several_kernels(nodes: int, kernels: int) -> None:
    """Each of so many stages at most: what schedules a program takes longer than in proportion to them."""
    chain = "".join(f"x{n + 1} = Tanh(x{n})  " for n in range(nodes))
    graph, remarks = fused(f"m (float[4, 5] x0) => (x{nodes}) {{ {chain} }}")
    assert len(texts(graph)) == kernels
    assert any("stages, and 64 are the most" in remark for remark in remarks) == (kernels > 1)


@pytest.mark.parametrize(("steps", "kernels"), [(2, 1), (20, 10)])
def test_steps_of_a_recurrence_that_reduce_are_few_tasks(steps: int, kernels: int) -> None:
    """As a dynamic program over the labels of words is unrolled."""
    nodes = "".join(
        f"u{n} = Unsqueeze(a{n}, last)  s{n} = Add(u{n}, w)  r{n} = ReduceLogSumExp<keepdims=0>(s{n}, first)"
        f"  a{n + 1} = Add(r{n}, x{n})  "
        for n in range(steps)
    )
    given = "".join(f", float[2, 5] x{n}" for n in range(steps))
    graph, remarks = fused(
        f"m (float[2, 5] a0, float[1, 5, 5] w{given}) => (a{steps})"
        f" <int64[1] last = {{2}}, int64[1] first = {{1}}> {{ {nodes} }}"
    )
    assert len(texts(graph)) == kernels
    assert len(graph.tasks) <= 3
    assert any("reductions, and 4 are the most" in remark for remark in remarks) == (kernels > 1)


@pytest.mark.parametrize(("columns", "kernels"), [(16, 3), (5, 1)])
def test_what_is_reduced_stays_apart_where_it_is_joined_in_whole_cache_lines(columns: int, kernels: int) -> None:
    graph, remarks = fused(
        f"""m (float[8, 9, {columns}] x, float[8, 9, {columns}] z) => (y) <int64[1] n = {{1}}> {{
            a = ReduceMean<keepdims=0>(x, n)  b = ReduceMean<keepdims=0>(z, n)  y = Concat<axis=1>(a, b)
        }}"""
    )
    assert len(texts(graph)) == kernels
    assert any("is computed where it is joined" in remark for remark in remarks) == (kernels > 1)


def test_branches_that_meet_again_join_without_a_circle() -> None:
    graph, _ = fused(
        """m (float[4, 4] x, float[4, 4] w) => (y) {
            a = MatMul(x, w)  b = MatMul(a, w)  c = Add(b, a)  d = MatMul(c, w)  y = Add(d, c)
        }"""
    )
    assert [node.op for node in graph.computes] == ["MatMul", "MatMul+Add", "MatMul+Add"]


LAYER_NORM = """m (float[8, 6, 64] x, float[64] g, float[64] b) => (y) <float two = {2.0}, float e = {1e-5}> {
    m = ReduceMean<axes = [-1]>(x)  d = Sub(x, m)  p = Pow(d, two)  v = ReduceMean<axes = [-1]>(p)
    w = Add(v, e)  s = Sqrt(w)  n = Div(d, s)  o = Mul(n, g)  y = Add(o, b)
}"""


def test_the_pieces_of_a_layer_norm_are_one_program() -> None:
    graph, _ = fused(LAYER_NORM, opset=17)
    (text,) = texts(graph)
    assert text.count("sum[") == 2


GELU = """m (float[8, 64] x, float[64, 32] w, float[32] b) => (y)
<float root = {1.4142135}, float one = {1.0}, float half = {0.5}> {
    p = MatMul(x, w)  h = Add(p, b)  d = Div(h, root)  e = Erf(d)  s = Add(e, one)  m = Mul(h, s)  y = Mul(m, half)
}"""


def test_the_pieces_of_a_gelu_are_computed_with_the_product_before_it() -> None:
    graph, _ = fused(GELU)
    (text,) = texts(graph)
    assert [text.count("erf("), text.count("sum[")] == [1, 1]


def test_what_each_element_of_is_reduced_once_is_not_in_memory() -> None:
    graph, _ = fused("m (float[200, 200] x, float[200, 200] w) => (y) { a = Mul(x, w)  y = ReduceSum(a) }")
    assert texts(graph) == ["    Y[i0, i1] = sum[r0 < 200, r1 < 200](A[r0, r1] * B[r0, r1])"]
    graph, _ = fused("m (float[200, 200] x) => (y, a) { a = Exp(x)  y = ReduceSum(a) }")
    assert len(texts(graph)) == 2


def test_what_is_reduced_to_one_number_is_not_joined_with_what_needs_all_of_it() -> None:
    graph, remarks = fused("m (float[200, 200] x) => (y) { m = ReduceMax(x)  y = Sub(x, m) }")
    assert len(texts(graph)) == 2
    assert any("their stages do not go along the same rows" in remark for remark in remarks)


def test_a_sum_is_computed_along_its_own_rows_and_transposed_from_its_tiles() -> None:
    graph, _ = fused("m (float[3, 4] x, float[4, 5] w) => (y) { a = MatMul(x, w)  y = Transpose<perm = [1, 0]>(a) }")
    assert texts(graph) == [
        "    T0: f32[3, 5]\n    T0[i0, i1] = sum[r0 < 4](A[i0, r0] * B[r0, i1])\n    Y[i0, i1] = T0[i1, i0]"
    ]


def test_a_result_whose_rows_change_places_is_computed_in_its_order() -> None:
    graph, _ = fused(
        "m (float[2, 3, 4] x, float[4, 5] w) => (y) { a = MatMul(x, w)  y = Transpose<perm = [1, 0, 2]>(a) }"
    )
    (text,) = texts(graph)
    assert text.startswith("    Y[")
    assert "T0" not in text


def test_divisions_by_numbers_are_products_except_before_rounding() -> None:
    graph, _ = fused("m (float[3] x) => (y) <float c = {4.0}> { a = Div(x, c)  y = Exp(a) }")
    assert texts(graph) == ["    Y[i0] = exp(A[i0] * 0.25)"]
    graph, _ = fused("m (float[3] x) => (y) <float c = {4.0}> { a = Div(x, c)  y = Floor(a) }")
    assert texts(graph) == ["    Y[i0] = floor(A[i0] / 4.0)"]


PADDED = "Conv<pads = [1, 1, 1, 1]>(a, w)"


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (f"a = Relu(x)  y = {PADDED}", "max(A[i0, i1, i2 - 1, i3 - 1], 0) if i2 >= 1"),
        ("a = Pad(x, p)  y = Conv(a, w)", "A[i0, i1, i2 - 1, i3 - 1] if i2 >= 1"),
        (f"s = Add(x, x)  r = Relu(s)  a = Neg(r)  y = {PADDED}", "-max(A[i0, i1, i2 - 1, i3 - 1] + A["),
    ],
)
def test_borders_and_what_is_cheap_under_one_join_a_convolution(body: str, first: str) -> None:
    head = "m (float[1, 2, 8, 8] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
    graph, _ = fused(f"{head} {{ {body} }}")
    (text,) = texts(graph)
    assert first in text


def test_what_is_not_cheap_is_computed_before_a_convolution() -> None:
    graph, remarks = fused(f"m (float[1, 2, 8, 8] x, float[3, 2, 3, 3] w) => (y) {{ a = Exp(x)  y = {PADDED} }}")
    assert len(texts(graph)) == 2
    assert any("it is an anchor" in remark for remark in remarks)


def test_a_zero_is_a_literal_unless_it_divides() -> None:
    graph, _ = fused("m (float[3] x) => (y) <float z = {0.0}> { y = Max(x, z) }")
    assert texts(graph) == ["    Y[i0] = max(A[i0], 0.0)"]
    graph, _ = fused("m (float[3] x) => (y) <float z = {0.0}> { a = Div(x, z)  y = Neg(a) }")
    assert texts(graph) == ["    Y[i0] = -(A[i0] / B[])"]


def test_a_sum_joins_the_operand_whose_program_is_more_common() -> None:
    graph, _ = fused(
        """m (float[4, 4] x, float[4, 4] w, float[4, 6] u, float[6, 4] v) => (y) {
            a = MatMul(x, w)  b = MatMul(a, w)  c = MatMul(u, v)  y = Add(b, c)
        }"""
    )
    (joined,) = (node for node in graph.computes if node.op == "MatMul+Add")
    assert joined.inputs == ("a", "w", "c")


def test_what_is_scattered_through_a_view_is_computed_before() -> None:
    """Where an update lies is data, which no view of other dimensions can take apart."""
    graph, remarks = fused(
        """m (float[2, 3] x, float[2, 3] y, bool[2, 3] c, float[9] a) => (z)
        <int64[2, 3, 1] i = {4, 2, 3, 8, 0, 1}> {
            w = Where(c, x, y)
            z = ScatterND(a, i, w)
        }"""
    )
    assert [node.op for node in graph.computes] == ["Where", "ScatterND"]
    assert any("in a dimension that a view divides or joins" in remark for remark in remarks)


def test_a_group_is_asked_again_only_where_a_neighbour_was_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, refusal = Counter[tuple[_Group, _Group]](), _Grouping._refusal

    def counted(own: _Grouping, group: _Group, source: _Source) -> str:
        asked[group, own._groups[source.producer]] += 1
        return refusal(own, group, source)

    monkeypatch.setattr(_Grouping, "_refusal", counted)
    # What reads `a` is joined in a second round; `c` reads `b` otherwise than in an order of its own indices.
    graph, remarks = fused(
        """m (float[4, 5] x, float[5, 6] w, float[6, 7] v) => (y, d) {
            a = MatMul(x, w)  s = Sigmoid(a)  y = Mul(a, s)
            b = MatMul(x, w)  c = MatMul(b, v)  d = Relu(c)
        }"""
    )
    assert len(list(graph.computes)) == 3
    assert len(remarks) == 1
    assert max(asked.values()) == 1
