"""Recurrent layers, against loops of NumPy."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import metasched as ms
from metasched.graph.loops import unrolled
from tests.support.graphs import by_reference
from tests.support.onnx_models import model, node, random, value
from tests.support.traced_functions import run_graph

STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 5, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def stepped(op: str, x: np.ndarray, w: Any, r: Any, b: Any, h: Any, c: Any, *, after_product: bool, clip: float) -> Any:
    """What one step of one direction makes: hidden values and cells."""

    def held(values: np.ndarray) -> np.ndarray:
        return np.clip(values, -clip, clip)

    given, own = x @ w.T + b[: len(b) // 2], h @ r.T + b[len(b) // 2 :]
    if op == "RNN":
        return np.tanh(held(given + own)), c
    n = HIDDEN
    gates = sigmoid(held(given + own))
    if op == "GRU":
        update, reset = gates[:, :n], gates[:, n : 2 * n]
        inner = reset * own[:, 2 * n :] if after_product else (reset * h) @ r[2 * n :].T + b[-n:]
        return (1 - update) * np.tanh(held(given[:, 2 * n :] + inner)) + update * h, c
    cells = gates[:, 2 * n : 3 * n] * c + gates[:, :n] * np.tanh(held((given + own)[:, 3 * n :]))
    return gates[:, n : 2 * n] * np.tanh(cells), cells


def expected(op: str, arrays: dict[str, np.ndarray], directions: list[bool], lengths: Any, **how: Any) -> list[Any]:
    x, count = arrays["X"], len(directions)
    whole = np.zeros((STEPS, count, BATCH, HIDDEN))
    ends = [arrays["h"].astype(np.float64), arrays["c"].astype(np.float64)]
    for d, is_reverse in enumerate(directions):
        for t in sorted(range(STEPS), reverse=is_reverse):
            weights = [arrays[name][d] for name in "WRB"]
            made = stepped(op, x[t], *weights, ends[0][d], ends[1][d], **how)
            has = (t < np.asarray(lengths))[:, None]
            whole[t, d] = np.where(has, made[0], 0)
            ends = [np.stack([*e[:d], np.where(has, m, e[d]), *e[d + 1 :]]) for e, m in zip(ends, made, strict=True)]
    return [whole, *ends]


LAYERS: list[tuple[str, list[int] | None, dict[str, Any]]] = [
    ("forward", None, {}),
    ("reverse", [3, 1], {}),
    ("bidirectional", [2, 3], {"layout": 1}),
    ("forward", None, {"clip": 0.5}),
]


@pytest.mark.parametrize(
    ("op", "direction", "lengths", "attributes"),
    [*((op, *one) for one in LAYERS for op in GATES), ("GRU", "forward", None, {"linear_before_reset": 1})],
)
def test_layers(op: str, direction: str, lengths: Any, attributes: dict[str, Any]) -> None:
    made, arrays, wanted = layer(op, direction, lengths, attributes)
    graph = ms.load_onnx(made).graph
    require_close(run_graph(graph, [arrays[name] for name in graph.inputs]), wanted)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize(("direction", "lengths"), [("reverse", None), ("bidirectional", [2, 3])])
def test_many_steps_are_a_loop(op: str, direction: str, lengths: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolled, "_MOST_PROGRAMS", 5)
    made, arrays, wanted = layer(op, direction, lengths, {})
    net = ms.load_onnx(made)
    loops = list(net.graph.loops)
    assert [loop.most for loop in loops] == [STEPS] * (2 if direction == "bidirectional" else 1)
    assert not any(loop.is_ended_by_data for loop in loops)
    require_close(by_reference(net.graph, arrays), wanted)
    require_close(net(**{name: arrays[name] for name in net.inputs}), wanted)


def of_any_length(made: Any) -> Any:
    """A model of a layer for steps and batches of any number, `t` and `b`."""
    for given in made.graph.input:
        dims = given.type.tensor_type.shape.dim
        dims[1].dim_param = "b"
        if given.name == "X":
            dims[0].dim_param = "t"
    return made


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("has_lengths", [False, True])
def test_layers_of_a_range_of_lengths_run_on_buckets(op: str, direction: str, has_lengths: bool) -> None:
    made = of_any_length(layer(op, direction, None, {})[0])
    if has_lengths:
        made.graph.node[0].input[4] = "lengths"
        made.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["b"]))
    net = ms.load_onnx(made, t=ms.SizeRange(2, 9, buckets=(4, 9)), b=(2, 3))
    assert isinstance(net, ms.NetworkOfSizes)
    for steps, batch in ((9, 3), (7, 3), (4, 2), (3, 3), (5, 2)):
        shapes = {"X": (steps, batch, WIDTH)} | dict.fromkeys(
            "hc", (2 if direction == "bidirectional" else 1, batch, HIDDEN)
        )
        given = {name: random(*shapes[name], seed=steps) for name in net.inputs if name != "lengths"}
        given |= {"lengths": np.int32([steps, 2, 1][:batch])} if has_lengths else {}
        require_close(net(**given), net.at(t=steps, b=batch)(**given))
    assert not net.exact
    assert len(net.buckets) == 2
    for bucket in net.buckets:
        loops = list(bucket.network.graph.loops)
        assert [loop.is_ended_by_data for loop in loops] == [True] * (2 if direction == "bidirectional" else 1)


def test_an_export_of_a_range_of_lengths_goes_as_many_steps_as_a_call_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = ms.load_onnx(of_any_length(layer("LSTM", "bidirectional", None, {})[0]), t=(5, 9), b=BATCH)
    net.export(tmp_path / "layers_of_any_length")
    monkeypatch.syspath_prepend(str(tmp_path))
    run = importlib.import_module("layers_of_any_length.network").run
    for steps in (5, 6, 9):
        given = [random(steps, BATCH, WIDTH), *(random(2, BATCH, HIDDEN, seed=seed) for seed in (1, 2))]
        for found, wanted in zip(run(*given), net(*given), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("op", "attributes"), [("RNN", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})])
def test_a_step_is_one_kernel(op: str, attributes: dict[str, Any]) -> None:
    net = ms.load_onnx(layer(op, "forward", None, attributes)[0])
    products = [str(node.program) for node in net.optimised.computes if "r0 < 4" in str(node.program)]
    assert len(products) == STEPS
    assert all("tanh" in text for text in products)
    assert not any("tanh" in str(node.program) for node in net.optimised.computes if str(node.program) not in products)


def test_steps_share_the_weights_of_their_gates() -> None:
    """Copies for each step would not fit into a cache together."""
    net = ms.load_onnx(layer("GRU", "forward", None, {})[0])
    assert sum(array.shape[-2:] == (HIDDEN, HIDDEN) for array in net.graph.constants.values()) <= 3


def require_close(found: Any, wanted: list[Any]) -> None:
    for made, other in zip(found, wanted, strict=False):
        np.testing.assert_allclose(made, other, rtol=1e-4, atol=1e-5)


def layer(op: str, direction: str, lengths: Any, attributes: dict[str, Any]) -> tuple[Any, dict[str, Any], list[Any]]:
    """A model of a layer, arrays for it, and what it computes of them."""
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    rows, count = GATES[op] * HIDDEN, len(directions)
    shapes = {"X": (STEPS, BATCH, WIDTH), "W": (count, rows, WIDTH), "R": (count, rows, HIDDEN), "B": (count, 2 * rows)}
    shapes |= {"h": (count, BATCH, HIDDEN), "c": (count, BATCH, HIDDEN)}
    arrays = {name: random(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}
    how = {"after_product": "linear_before_reset" in attributes, "clip": attributes.get("clip", np.inf)}
    wanted = expected(op, arrays, directions, lengths or [STEPS] * BATCH, **how)
    turned = attributes.get("layout")
    if turned:
        arrays |= {name: np.ascontiguousarray(arrays[name].swapaxes(0, 1)) for name in "Xhc"}
        wanted = [wanted[0].transpose(2, 0, 1, 3), *(end.swapaxes(0, 1) for end in wanted[1:])]
    constants = {name: arrays[name] for name in "WRB"} | ({} if lengths is None else {"L": np.int32(lengths)})
    has_cells = op == "LSTM"
    inputs = f"X W R B {'-' if lengths is None else 'L'} h" + " c" * has_cells
    outputs = ["Y", "Yh"] + ["Yc"] * has_cells
    one = node(op, inputs, " ".join(outputs), hidden_size=HIDDEN, direction=direction, **attributes)
    given = [value(name, arrays[name]) for name in "Xhc"[: 2 + has_cells]]
    return model([one], given, outputs, constants), arrays, wanted


ACTIVATIONS = {
    "Affine": lambda x, a=1.0, b=0.0: a * x + b,
    "Elu": lambda x, a=1.0: np.where(x < 0, a * np.expm1(x), x),
    "HardSigmoid": lambda x, a=0.2, b=0.5: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a=0.01: np.where(x < 0, a * x, x),
    "ScaledTanh": lambda x, a=1.0, b=1.0: a * np.tanh(b * x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "ThresholdedRelu": lambda x, a=1.0: np.where(x > a, x, 0),
}


def activated(x: np.ndarray, names: list[str], **attributes: Any) -> np.ndarray:
    """What activations make of `x`, one in each direction: a step whose weights are those of the identity."""
    count, width = len(names), x.shape[-1]
    constants = {"W": np.stack([np.eye(width, dtype=np.float32)] * count)}
    constants["R"] = np.zeros((count, width, width), np.float32)
    how = {"hidden_size": width, "direction": "bidirectional" if count > 1 else "forward", "activations": names}
    one = node("RNN", "X W R", **how, **attributes)
    return np.asarray(ms.load_onnx(model([one], [value("X", x[None])], ["Y"], constants))(X=x[None])[0])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_with_their_own_numbers(name: str) -> None:
    x = random(3, 5) * 3
    np.testing.assert_allclose(activated(x, [name])[0], ACTIVATIONS[name](x), rtol=1e-5, atol=1e-6)


def test_numbers_go_to_the_activations_that_have_some_in_turn() -> None:
    x = random(3, 5) * 3
    one, two = activated(x, ["Elu", "HardSigmoid"], activation_alpha=[0.25, 0.5], activation_beta=[0.75])
    np.testing.assert_allclose(one, ACTIVATIONS["Elu"](x, 0.25), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two, ACTIVATIONS["HardSigmoid"](x, 0.5, 0.75), rtol=1e-5, atol=1e-6)
    _, last = activated(x, ["Softsign", "LeakyRelu"], activation_alpha=[0.5])
    np.testing.assert_allclose(last, ACTIVATIONS["LeakyRelu"](x, 0.5), rtol=1e-5, atol=1e-6)


def test_steps_are_the_same_tasks() -> None:
    def tasks(steps: int) -> int:
        x, constants = random(steps, 1, 64), {"W": random(1, 256, 64), "R": random(1, 256, 64)}
        one = node("LSTM", "X W R", "Y Yh", hidden_size=64)
        net = ms.load_onnx(model([one], [value("X", x)], ["Y"], constants))
        return len(net.optimised.tasks)

    assert tasks(12) == tasks(7)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"input_forget": 1}, "input and forget gates that are one"),
        ({"activations": ["Sigmoid", "Swish", "Tanh"]}, "its activations are Sigmoid, Swish, Tanh"),
    ],
)
def test_what_is_not_known_is_said(attributes: dict[str, Any], message: str) -> None:
    constants = {"W": random(1, 16, 5), "R": random(1, 16, 4)}
    one = node("LSTM", "X W R", hidden_size=4, **attributes)
    with pytest.raises(ms.NetworkError, match=message):
        ms.load_onnx(model([one], [value("X", random(2, 1, 5))], ["Y"], constants))


UNFIT = {
    "W": (1, 12, WIDTH),
    "R": (2, 4, HIDDEN + 1),
    "B": (2, 4),
    "L": (BATCH + 1,),
    "h": (2, 1, HIDDEN),
    "c": (2, BATCH, 7),
    "P": (2, HIDDEN),
}


# What has cells has two inputs more.
FITTED = [(op, name) for op in GATES for name in UNFIT if op == "LSTM" or name not in "cP"]


@pytest.mark.parametrize(("op", "name"), FITTED)
def test_an_input_that_does_not_fit_is_refused(op: str, name: str) -> None:
    rows = GATES[op] * HIDDEN
    shapes = {
        "X": (STEPS, BATCH, WIDTH),
        "W": (2, rows, WIDTH),
        "R": (2, rows, HIDDEN),
        "B": (2, 2 * rows),
        "L": (BATCH,),
    }
    shapes |= {"h": (2, BATCH, HIDDEN)} | ({"c": (2, BATCH, HIDDEN), "P": (2, 3 * HIDDEN)} if op == "LSTM" else {})
    given = shapes | {name: UNFIT[name]}
    arrays = {own: np.zeros(of, np.int32 if own == "L" else np.float32) for own, of in given.items()}
    one = node(op, " ".join(arrays), "Y", hidden_size=HIDDEN, direction="bidirectional")
    of = f"{', '.join(map(str, shapes[name]))}"
    what = {"L": "sequence_lens", "h": "initial_h", "c": "initial_c"}.get(name, name)
    with pytest.raises(ms.RefusedModel, match=rf"its {what} is .*, and \[{of}\] fits 2 directions of 4 hidden values"):
        ms.load_onnx(model([one], [value(own, array) for own, array in arrays.items()], ["Y"]))
