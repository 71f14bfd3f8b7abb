"""Recurrent layers of bytes, against loops of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import metasched as ms
from metasched.graph.loops import unrolled
from tests.support.graphs import by_reference
from tests.support.onnx_models import model, node, random, value

STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 6, 5
COLUMNS = 4 * HIDDEN


def as_bytes(x: np.ndarray) -> np.ndarray:
    """What the bytes of elements stand for, by the range of all of them and zero."""
    x = x.astype(np.float32)
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = (high - low) / 255 if high > low else np.float32(1)
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero).astype(np.float64) * scale


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def expected(arrays: dict[str, np.ndarray], directions: list[bool], lengths: Any, clip: float) -> list[np.ndarray]:
    given = {name: array.astype(np.float64) for name, array in arrays.items()}
    matrices = {
        name: (given[name] - np.reshape(given[f"{name}_zero"], (len(directions), 1, -1)))
        * np.reshape(given[f"{name}_scale"], (len(directions), 1, -1))
        for name in "WR"
    }
    whole = np.zeros((STEPS, len(directions), BATCH, HIDDEN))
    last, cells = given["h"].copy(), given["c"].copy()
    for d, is_reverse in enumerate(directions):
        inputs = as_bytes(given["X"]) @ matrices["W"][d] + given["B"][d, :COLUMNS] + given["B"][d, COLUMNS:]
        for t in sorted(range(STEPS), reverse=is_reverse):
            gates = np.split(inputs[t] + as_bytes(last[d]) @ matrices["R"][d], 4, axis=1)
            entry, output, forget = (sigmoid(np.clip(gate, -clip, clip)) for gate in gates[:3])
            made = forget * cells[d] + entry * np.tanh(np.clip(gates[3], -clip, clip))
            has = (t < np.asarray(lengths))[:, None]
            whole[t, d] = np.where(has, output * np.tanh(made), 0)
            last[d] = np.where(has, output * np.tanh(made), last[d])
            cells[d] = np.where(has, made, cells[d])
    return [whole, last, cells]


def layer(
    direction: str, kind: Any, *, by_column: bool, lengths: Any = None, clip: float = 0.0
) -> tuple[Any, dict[str, np.ndarray], list[np.ndarray]]:
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    count, limits, rng = len(directions), np.iinfo(kind), np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "X": random(STEPS, BATCH, WIDTH),
        "B": random(count, 2 * COLUMNS, seed=1),
        "h": random(count, BATCH, HIDDEN, seed=2),
        "c": random(count, BATCH, HIDDEN, seed=3),
    }
    of_scales = (count, COLUMNS) if by_column else (count,)
    for name, inner in (("W", WIDTH), ("R", HIDDEN)):
        arrays[name] = rng.integers(limits.min, limits.max + 1, (count, inner, COLUMNS)).astype(kind)
        arrays[f"{name}_scale"] = (rng.random(of_scales) * 0.01 + 0.001).astype(np.float32)
        arrays[f"{name}_zero"] = rng.integers(limits.min // 9, limits.max // 9, of_scales).astype(kind)
    constants = {name: array for name, array in arrays.items() if name not in ("X", "h", "c")}
    if lengths is not None:
        constants["n"] = np.array(lengths, np.int32)
    inputs = f"X W R B {'n' if lengths else '-'} h c - W_scale W_zero R_scale R_zero"
    attributes = {"direction": direction, "hidden_size": HIDDEN, "clip": clip, "domain": "com.microsoft"}
    made = node("DynamicQuantizeLSTM", inputs, "Y H C", **attributes)
    whole = model(
        [made], [value(name, arrays[name]) for name in "Xhc"], ("Y", "H", "C"), constants, domains=["com.microsoft"]
    )
    return whole, arrays, expected(arrays, directions, lengths or [STEPS] * BATCH, clip or np.inf)


CASES = [
    ("forward", np.int8, {"by_column": False}),
    ("reverse", np.int8, {"by_column": True, "clip": 0.5}),
    ("bidirectional", np.uint8, {"by_column": True}),
    ("bidirectional", np.uint8, {"by_column": False, "lengths": [4, 2, 3]}),
]


@pytest.mark.parametrize(("direction", "kind", "how"), CASES)
@pytest.mark.parametrize("in_a_loop", [False, True])
def test_inputs_and_hidden_values_are_quantised_in_the_call(
    direction: str, kind: Any, how: dict[str, Any], in_a_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_a_loop:
        monkeypatch.setattr(unrolled, "_MOST_PROGRAMS", 5)
    made, arrays, wanted = layer(direction, kind, **how)
    net = ms.load_onnx(made)
    assert bool(list(net.graph.loops)) == in_a_loop
    for found, other in zip(by_reference(net.graph, {name: arrays[name] for name in net.inputs}), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)
    for found, other in zip(net(**{name: arrays[name] for name in net.inputs}), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)


def test_a_range_of_lengths_and_batches_quantises_what_a_call_has() -> None:
    """Hidden values are quantised by the range of those of all rows, in each step: steps go by sizes, too."""
    made, _, _ = layer("bidirectional", np.uint8, by_column=True)
    for given in made.graph.input:
        given.type.tensor_type.shape.dim[1].dim_param = "b"
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "t"
    net = ms.load_onnx(made, t=ms.SizeRange(2, 9, buckets=(9,)), b=(2, 4))
    assert isinstance(net, ms.NetworkOfSizes)
    for steps, batch in ((9, 4), (5, 3), (2, 2)):
        arrays = [5 * random(steps, batch, WIDTH), *(random(2, batch, HIDDEN, seed=seed) for seed in (1, 2))]
        for found, wanted in zip(net(*arrays), net.at(t=steps, b=batch)(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert not net.exact
    assert all([loop.most for loop in bucket.network.graph.loops] == [9, 9] for bucket in net.buckets)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("W_scale", np.ones(7, np.float32), r"are one for each direction or column, and not f32\[7\]"),
        (
            "R",
            np.ones((1, HIDDEN + 1, COLUMNS), np.int8),
            r"its R is i8\[1, 6, 20\], and \[1, 5, 20\] fits 1 direction",
        ),
        ("W", np.ones((1, WIDTH, COLUMNS), np.float32), r"its weights are f32\[1, 6, 20\], and not bytes"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, array: Any, message: str) -> None:
    made, _, _ = layer("forward", np.int8, by_column=False)
    (place,) = (n for n, tensor in enumerate(made.graph.initializer) if tensor.name == name)
    made.graph.initializer[place].CopyFrom(numpy_helper.from_array(array, name))
    with pytest.raises(ms.RefusedModel, match=message):
        ms.load_onnx(made)
