"""Nodes behind views go over their data in the shape in front of them where that saves something."""

from __future__ import annotations

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import stages_of
from metasched.graph.ir import Graph
from metasched.graph.layouts.reshaping import has_quotients
from metasched.graph.passes.declaration import PassContext, PassOptions
from metasched.graph.passes.fusion import fusion
from metasched.graph.passes.layouts import layouts
from metasched.graph.passes.movement import movement
from metasched.graph.passes.shapes import shapes
from tests.support.graphs import require_equal
from tests.support.targets import AVX512
from tests.unit.graph.passes.test_layouts import imported

PHASES = """m (float[1, 16, 5, 4] x) => (y) {
    c = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b)
    r = Relu(c)
    d = Conv<pads = [1, 1, 1, 1]>(r, v)
    y = Tanh(d)
}"""
GROUPS = """m (float[1, 8, 8, 8] x) => (y) <int64[3] s = {0, 4, -1}, int64[4] t = {1, 32, 8, 8}> {
    c = Conv<pads = [1, 1, 1, 1]>(x, w)
    g = Reshape(c, s)
    n = InstanceNormalization(g, scale, bias)
    h = Reshape(n, t)
    r = Relu(h)
    y = Conv<pads = [1, 1, 1, 1]>(r, v)
}"""


def passed(body: str, **weights: tuple[int, ...]) -> tuple[Graph, list[str]]:
    """The graph of a network after the pass and those that join nodes, which computes the same; what the pass said."""
    graph = imported(body, **weights)
    context = PassContext(PassOptions(AVX512))
    made = shapes(graph, context)
    made.validate()
    require_equal(graph, made, rtol=1e-4, atol=1e-4)
    joined = fusion(movement(layouts(made, context), context), PassContext(context.options))
    joined.validate()
    require_equal(graph, joined, rtol=1e-4, atol=1e-4)
    return joined, [remark for remark in context.remarks if "goes over" in remark]


def quotients_of(graph: Graph, op: str) -> int:
    """The reads by quotients in what computes results of nodes of a type, but for sums."""
    forms = [stages_of(node.program) for node in graph.computes if op in node.op.split("+")]
    values = [form.stages[-1].value for form in forms if form is not None]
    return sum(any(map(has_quotients, read.indices)) for value in values for read in reads(value))


def test_activations_go_over_steps_and_phases() -> None:
    graph, said = passed(PHASES, w=(16, 8, 4, 4), b=(8,), v=(8, 8, 3, 3))
    assert len(said) == 1
    assert quotients_of(graph, "Relu") == 0


def test_results_of_phases_are_turned_before_they_are_seen_as_places() -> None:
    body = PHASES.replace("d = Conv<pads = [1, 1, 1, 1]>(r, v)\n    y = Tanh(d)", "y = Tanh(r)")
    graph, _ = passed(body, w=(16, 8, 4, 4), b=(8,))
    assert all(node.op != "Layout" for node in graph.computes)
    assert quotients_of(graph, "Layout") == quotients_of(graph, "Tanh") == 0


def test_norms_of_groups_keep_channels_innermost() -> None:
    graph, said = passed(GROUPS, w=(32, 8, 3, 3), scale=(4,), bias=(4,), v=(16, 32, 3, 3))
    assert len(said) == 1
    (norm,) = (node for node in graph.computes if "InstanceNormalization" in node.op)
    assert graph.types[norm.inputs[0]].shape == graph.types[norm.outputs[0]].shape == (1, 8, 8, 32)


def test_a_norm_of_all_channels_is_one_of_a_group() -> None:
    body = GROUPS.replace("{0, 4, -1}", "{0, 1, -1}")
    graph, said = passed(body, w=(32, 8, 3, 3), scale=(1,), bias=(1,), v=(16, 32, 3, 3))
    assert len(said) == 1
    (norm,) = (node for node in graph.computes if "InstanceNormalization" in node.op)
    assert graph.types[norm.inputs[0]].shape == (1, 8, 8, 32)


def test_a_norm_whose_data_no_order_reaches_stays() -> None:
    body = """m (float[2, 8, 6] x) => (y) <int64[3] s = {2, 4, 12}> {
        a = Sigmoid(x)
        g = Reshape(a, s)
        y = InstanceNormalization(g, scale, bias)
    }"""
    _, said = passed(body, scale=(4,), bias=(4,))
    assert not said


def test_views_that_are_read_by_indices_stay() -> None:
    body = """m (float[2, 6] x) => (y) <int64[3] s = {2, 2, 3}> { a = MatMul(x, w)  g = Reshape(a, s)  y = Relu(g) }"""
    _, said = passed(body, w=(6, 6))
    assert not said


def test_what_reductions_read_as_well_is_read_where_it_lies() -> None:
    body = PHASES.replace("(r, v)", "(c, v)").replace("Tanh(d)", "Add(d, r)")
    _, said = passed(body, w=(16, 8, 4, 4), b=(8,), v=(8, 8, 3, 3))
    assert not said


def test_weights_are_not_read_by_quotients_for_an_activation() -> None:
    body = "m (float[4, 6] x) => (y) <int64[2] t = {8, 3}> { a = MatMul(x, w)  h = Reshape(a, t)  y = Add(h, b) }"
    _, said = passed(body, w=(6, 6), b=(8, 1))
    assert said == []


def test_norms_of_several_nodes_read_one_view() -> None:
    body = GROUPS.replace("n = InstanceNormalization(g, scale, bias)", "m = ReduceMean(g, e)\n    n = Sub(g, m)")
    body = body.replace("<int64[3] s", "<int64[1] e = {2}, int64[3] s")
    _, said = passed(body, w=(32, 8, 3, 3), v=(16, 32, 3, 3))
    assert not any(remark.startswith(("`m`", "`n`")) for remark in said)
