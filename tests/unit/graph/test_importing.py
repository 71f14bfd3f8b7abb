"""From a model to a graph: sizes, refusals, functions, branches, and what is computed at load."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, version_converter
from scipy.special import softmax

import metasched as ms
from metasched.graph import importing
from metasched.graph.ir import Compute, ShapeView
from metasched.graph.reading.functions import schema_of
from metasched.graph.registry import FILES, node_types
from metasched.graph.site import NodeSite
from metasched.ir.program import Program
from metasched.reference.execution import reference
from tests.support.onnx_models import model, node, random, run, unknown, value

# The opset of the newest node types here.
NEWEST = 28
OPEN = helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, ["batch", "seq", 4])


def test_sizes_left_open_are_bound_by_their_names() -> None:
    whole = model([node("Relu", "X")], [OPEN])
    network = ms.load_onnx(whole, batch=2, seq=3)
    assert network.inputs["X"].shape == (2, 3, 4)
    assert network(random(2, 3, 4)).shape == (2, 3, 4)


def test_the_first_size_of_a_model_without_names_is_a_batch() -> None:
    first, second = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 4]) for name in "XZ")
    whole = model([node("Add", "X Z")], [first, second])
    assert ms.load_onnx(whole, batch=3).inputs["Z"].shape == (3, 4)
    assert ms.load_onnx(whole, batch=(1, 8))(random(5, 4), random(5, 4)).shape == (5, 4)
    assert ms.load_onnx(whole, shapes={"X": (3, 4), "Z": (1, 4)}).outputs["Y"].shape == (3, 4)
    with pytest.raises(ms.NetworkError, match=r"`batch` \(dimension 0 of `X`\); `batch` \(dimension 0 of `Z`\)"):
        ms.load_onnx(whole)


def test_all_open_sizes_are_named_at_once() -> None:
    unnamed = helper.make_tensor_value_info("Z", onnx.TensorProto.FLOAT, [None])
    with pytest.raises(ms.NetworkError) as error:
        ms.load_onnx(model([node("Add", "X Z")], [OPEN, unnamed]), batch=2)
    assert "`seq` (dimension 1 of `X`); an unnamed one (dimension 0 of `Z`)" in str(error.value)
    network = ms.load_onnx(model([node("Add", "X Z")], [OPEN, unnamed]), batch=2, seq=1, shapes={"Z": (4,)})
    assert network.outputs["Y"].shape == (2, 1, 4)


@pytest.mark.parametrize("given", [{"width": 3}, {"values": {"W": 1}}, {"shapes": {"W": (1,)}}])
def test_what_the_model_lacks_cannot_be_bound(given: dict[str, Any]) -> None:
    with pytest.raises(ms.NetworkError, match=r"`(width|W)`"):
        ms.load_onnx(model([node("Relu", "X")], [OPEN]), **({"batch": 1, "seq": 1} | given))


def test_errors_of_node_functions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(site: NodeSite) -> Any:
        return site.operand(0).shape[7]

    known = {**node_types(), "Relu": replace(node_types()["Relu"], run=broken)}
    monkeypatch.setattr(importing, "node_types", lambda: known)
    nodes = [node("ImageDecoder", "X", "D"), node("Relu", "X", "Y")]
    with pytest.raises(ms.RefusedModel, match="its attributes and inputs do not go together: tuple index") as error:
        ms.load_onnx(model(nodes, [value("X", random(4, 4))], ("D", "Y")))
    cause = error.value.__cause__
    assert isinstance(cause, IndexError)
    assert [refusal.cause for refusal in error.value.refusals] == [None, cause]
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "broken"


def test_everything_that_cannot_be_expressed_is_refused_at_once() -> None:
    x = random(4)
    nodes = [
        node("ImageDecoder", "X", "A"),
        node("Cast", "A", "B", to=1),
        node("RandomNormalLike", "X", "C"),
        node("Add", "B C"),
    ]
    with pytest.raises(ms.RefusedModel) as error:
        ms.load_onnx(model(nodes, [value("X", x)]))
    assert [refusal.op for refusal in error.value.refusals] == ["ImageDecoder", "RandomNormalLike"]
    assert "ImageDecoder (opset 22) `ImageDecoder_node`(f32[4]): no program is known" in str(error.value)


@pytest.mark.parametrize(
    "drawing",
    [
        node("RandomNormalLike", "X", "Y"),
        node("RandomUniformLike", "X", "Y"),
        node("RandomNormal", "", "Y", shape=[2]),
        node("RandomUniform", "", "Y", shape=[2]),
        node("Multinomial", "X", "Y", sample_size=2),
        node("Bernoulli", "X", "Y"),
        node("Dropout", "X ratio training", "Y"),
    ],
    ids=lambda drawing: drawing.op_type,
)
def test_what_draws_random_numbers_is_refused_with_what_to_do(drawing: onnx.NodeProto) -> None:
    constants = {"ratio": np.float32(0.5), "training": np.array(True)}
    known = {name: array for name, array in constants.items() if name in drawing.input}
    why = "random( numbers)?, and a network gives the same.*: export the model without sampling.* noise as an input"
    with pytest.raises(ms.RefusedModel, match=why):
        ms.load_onnx(model([drawing], [value("X", random(2, 3))], constants=known))


def test_an_input_that_decides_shapes_is_given_at_load() -> None:
    x, shape = random(6), np.array([2, 3], np.int64)
    whole = model(
        [node("Add", "S S", "T"), node("Sub", "T S", "U"), node("Reshape", "X U")], [value("X", x), value("S", shape)]
    )
    with pytest.raises(
        ms.RefusedModel, match=r'its shape, `U`, is computed from data.*(\n.*)*values=\{"S": ...\}'
    ) as error:
        ms.load_onnx(whole)
    assert error.value.unbound == ("S",)
    network = ms.load_onnx(whole, values={"S": shape})
    assert list(network.inputs) == ["X"]
    np.testing.assert_array_equal(network(x), x.reshape(2, 3))


def test_shapes_that_a_model_computes_are_numbers_at_load() -> None:
    x = random(2, 3, 4)
    nodes = [
        node("Shape", "X", "S"), node("Gather", "S zero", "N"), node("Unsqueeze", "N axis", "M"),
        node("Concat", "M rest", "T", axis=0), node("Reshape", "X T", "R"), node("Relu", "R"),
    ]  # fmt: skip
    constants = {"zero": np.int64(0), "axis": np.array([0]), "rest": np.array([-1])}
    network = ms.load_onnx(model(nodes, [value("X", x)], constants=constants))
    assert [type(n) for n in network.graph.nodes] == [ShapeView, Compute]
    assert not network.graph.constants
    np.testing.assert_array_equal(network(x), np.maximum(x.reshape(2, 12), 0))


def test_what_equal_layers_compute_of_shapes_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[str]()

    def counted(program: Program) -> Any:
        runs.append(program.name)
        return reference(program)

    monkeypatch.setattr("metasched.graph.builder.reference", counted)
    x, nodes = random(2, 6), list[onnx.NodeProto]()
    for given, made in (("X", "first"), ("first", "second")):
        nodes += [node("Shape", given, f"{made}.s"), node("Mul", f"{made}.s two", f"{made}.t")]
        nodes += [node("Div", f"{made}.t two", f"{made}.u"), node("Reshape", f"{given} {made}.u", made)]
    network = ms.load_onnx(model([*nodes, node("Relu", "second")], [value("X", x)], constants={"two": [2]}))
    assert sorted(runs) == ["div", "mul"]
    np.testing.assert_array_equal(network(x), np.maximum(x, 0))


def test_node_types_that_onnx_defines_by_others_are_expanded() -> None:
    x = random(2, 4, 3)
    scale, bias = random(4), random(4, seed=1)
    made = run("GroupNormalization", x, scale, bias, num_groups=2, opset=21)
    parts = x.reshape(2, 2, 6).astype(np.float64)
    normal = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)).reshape(2, 4, 3)
    np.testing.assert_allclose(made, normal * scale[:, None] + bias[:, None], rtol=1e-4, atol=1e-5)


def function(name: str, nodes: list[Any], attributes: tuple[str, ...] = ()) -> Any:
    return helper.make_function(
        "mine", name, ["A"], ["B"], nodes, [helper.make_opsetid("", 22), helper.make_opsetid("mine", 1)], attributes
    )


def with_functions(*functions: Any) -> Any:
    call = helper.make_node(functions[0].name, ["X"], ["Y"], domain="mine", name="call", slope=0.5)
    whole = model([call], [value("X", random(4))], functions=list(functions))
    whole.opset_import.append(helper.make_opsetid("mine", 1))
    return whole


def test_functions_of_a_model_are_expanded_with_their_attributes() -> None:
    leaky = helper.make_node("LeakyRelu", ["A"], ["B"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    x = random(4)
    network = ms.load_onnx(with_functions(function("leak", [leaky], ("slope",))))
    np.testing.assert_allclose(network(x), np.where(x >= 0, x, 0.5 * x))


def test_functions_that_call_themselves_are_a_mistake() -> None:
    again = helper.make_node("again", ["A"], ["B"], domain="mine")
    with pytest.raises(ms.NetworkError, match="call one another 32 deep"):
        ms.load_onnx(with_functions(function("again", [again])))


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_is_known_at_load_is_taken(taken: bool) -> None:
    x = random(3)
    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(op, ["X"], ["Z"])], name, [], [unknown("Z")])
        for name, op in (("then", "Neg"), ("else", "Abs"))
    }
    whole = model([node("If", "C", **branches)], [value("X", x)], constants={"C": np.array(taken)})
    np.testing.assert_array_equal(ms.load_onnx(whole)(x), -x if taken else abs(x))


def test_older_operator_sets_are_converted() -> None:
    x = random(2, 3, 4)
    # Softmax was of all axes from one on, until opset 13.
    np.testing.assert_allclose(
        run("Softmax", x, opset=11, axis=1), softmax(x.reshape(2, 12), -1).reshape(x.shape), rtol=1e-5
    )
    np.testing.assert_array_equal(run("Squeeze", x[:1], opset=11, axes=[0]), x[0])


def test_what_cannot_be_converted_is_refused_where_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise version_converter.ConvertError("no adapter")

    monkeypatch.setattr(version_converter, "convert_version", fail)
    with pytest.raises(ms.RefusedModel, match="it is of opset 11, and has changed until 13") as refused:
        run("Softmax", random(2, 3), opset=11)
    assert "note: ONNX's converter could not bring it from opset 11 to 13: no adapter" in str(refused.value)
    np.testing.assert_array_equal(run("Softplus", np.float32([0]), opset=11), np.log(np.float32([2])))


def test_operator_sets_that_onnx_does_not_know_yet_are_refused() -> None:
    with pytest.raises(ms.NetworkError, match="of opset 1000, and the installed onnx knows those up to"):
        run("Relu", random(2), opset=1000)


def test_a_value_that_nothing_computes_is_a_mistake() -> None:
    with pytest.raises(ms.NetworkError, match="`W` is read, and nothing before computes it"):
        ms.load_onnx(model([node("Add", "X W")], [value("X", random(2))]))
    with pytest.raises(ms.NetworkError, match="nothing computes the output W"):
        ms.load_onnx(model([node("Relu", "X")], [value("X", random(2))], outputs=("W",)))


def test_a_value_that_is_computed_twice_is_a_mistake() -> None:
    with pytest.raises(ms.NetworkError, match="`Y` is computed twice"):
        ms.load_onnx(model([node("Relu", "X"), node("Neg", "X")], [value("X", random(2))]))


def test_inputs_that_the_language_has_no_type_for_are_refused() -> None:
    strings = helper.make_tensor_value_info("X", onnx.TensorProto.STRING, [2])
    with pytest.raises(ms.RefusedModel, match="  input `X`: the language has no element type string"):
        ms.load_onnx(model([node("Identity", "X")], [strings]))


@pytest.mark.parametrize(
    ("declared", "message"), [("INT64", "i64, and computes f32"), ("STRING", "no element type string")]
)
def test_an_output_of_another_element_type_than_declared_is_refused(declared: str, message: str) -> None:
    whole = model([node("Relu", "X")], [value("X", random(2, 3))])
    whole.graph.output[0].CopyFrom(helper.make_tensor_value_info("Y", getattr(onnx.TensorProto, declared), [2, 3]))
    with pytest.raises(ms.RefusedModel, match=rf"output.* `Y`.*: .*{message}"):
        ms.load_onnx(whole)


def test_a_node_of_an_operator_set_that_the_model_does_not_import_is_refused_as_such() -> None:
    own = helper.make_node("FusedMatMul", ["X", "X"], ["Y"], domain="com.example")
    with pytest.raises(ms.RefusedModel, match=r"  com.example:FusedMatMul `Y`.*: the model imports no `com.example`"):
        ms.load_onnx(model([own], [value("X", random(2, 2))]))


def test_node_types_that_are_newer_than_the_operator_set_are_what_later_ones_say() -> None:
    x = random(2, 5)
    made = run("LayerNormalization", x, np.ones(5, np.float32), opset=13)
    np.testing.assert_allclose(
        made, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), atol=1e-5
    )


def test_node_types_are_onnx_ones_or_say_their_form_and_are_looked_up_by_name() -> None:
    assert len(FILES.load()) > 15
    if onnx.defs.onnx_opset_version() < NEWEST:
        pytest.skip("the installed onnx lacks the newest node types")
    for name, known in node_types().items():
        domain, _, op = name.rpartition(":")
        assert (known.form is not None) != any(schema_of(op, domain, opset) for opset in (22, 28, 9, 5)), name


def test_a_kernel_runs_nothing_else_than_its_programs_say() -> None:
    """The graph's programs, run by the reference one by one, give what the network gives."""
    x, w = random(1, 3, 6, 6), random(4, 3, 3, 3, seed=1)
    nodes = [
        node("Conv", "X W", "A", pads=[1] * 4),
        node("Relu", "A", "B"),
        node("GlobalAveragePool", "B", "C"),
        node("Softmax", "C", axis=1),
    ]
    network = ms.load_onnx(model(nodes, [value("X", x)], constants={"W": w}))
    values: dict[str, Any] = {"X": x, **network.graph.constants}
    for one in network.graph.nodes:
        if isinstance(one, Compute):
            values[one.outputs[0]] = ms.reference(one.program)(*(values[name] for name in one.inputs))
        else:
            values[one.output] = values[one.input].reshape(network.graph.types[one.output].shape)
    np.testing.assert_allclose(network(x), values["Y"], rtol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"nonsense": 1}, "it has no attribute `nonsense`"),
        ({"alpha": "much"}, "the attribute `alpha` is of another type"),
        ({"alpha": float("nan")}, "no literal for NaN"),
    ],
)
def test_attributes_that_a_node_type_has_not_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ms.RefusedModel, match=message):
        run("LeakyRelu", random(2), **attributes)


def test_a_node_without_its_inputs_is_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="it has 1 inputs"):
        run("Add", random(2))
