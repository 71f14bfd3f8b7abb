"""Recurrent layers, against loops of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
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


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize(
    ("direction", "lengths", "attributes"),
    [
        ("forward", None, {}),
        ("reverse", [3, 1], {}),
        ("bidirectional", [2, 3], {"layout": 1}),
        ("forward", None, {"linear_before_reset": 1}),
        ("forward", None, {"clip": 0.5}),
    ],
)
def test_layers(op: str, direction: str, lengths: Any, attributes: dict[str, Any]) -> None:
    if "linear_before_reset" in attributes and op != "GRU":
        return
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
    graph = ms.load_onnx(model([one], given, outputs, constants)).graph
    for made, other in zip(run_graph(graph, [arrays[name] for name in graph.inputs]), wanted, strict=False):
        np.testing.assert_allclose(made, other, rtol=1e-4, atol=1e-5)


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
        ({"activations": ["Sigmoid", "Affine", "Tanh"]}, "its activations are Sigmoid, Affine, Tanh"),
    ],
)
def test_what_is_not_known_is_said(attributes: dict[str, Any], message: str) -> None:
    constants = {"W": random(1, 16, 5), "R": random(1, 16, 4)}
    one = node("LSTM", "X W R", hidden_size=4, **attributes)
    with pytest.raises(ms.NetworkError, match=message):
        ms.load_onnx(model([one], [value("X", random(2, 1, 5))], ["Y"], constants))
