"""A network with weights of four bits, from its file to an export: it holds no more than the file has."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import metasched as ms
from tests.support.onnx_models import integers, node, random, unknown

WIDTH, INNER, BLOCK = 512, 768, 32
# What an issue asks of every network: of its file, and what lives during a call besides.
MOST_OF_FILE = 1.2


def _weights(rows: int, length: int, seed: int) -> tuple[Any, Any, Any]:
    """Numbers in bytes, their scales, and what they stand for."""
    q, scales = integers(rows, length, low=0, high=16, seed=seed), random(rows, length // BLOCK, seed=seed) / 16
    packed = (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8).reshape(rows, length // BLOCK, -1)
    return packed, scales, (q - 8.0) * np.repeat(scales, BLOCK, 1)


def _model(path: Path) -> tuple[Any, Any]:
    """Two layers with a residual sum, for any number of rows; what they multiply by."""
    tensors, meant = [], []
    for name, (rows, length) in {"a": (INNER, WIDTH), "b": (WIDTH, INNER)}.items():
        packed, scales, values = _weights(rows, length, len(tensors))
        tensors += [numpy_helper.from_array(packed, f"{name}q"), numpy_helper.from_array(scales, f"{name}s")]
        meant.append(values)
    sizes = {"domain": "com.microsoft", "bits": 4, "block_size": BLOCK}
    nodes = [
        node("MatMulNBits", "x aq as", "h", N=INNER, K=WIDTH, **sizes),
        node("Relu", "h", "r"),
        node("MatMulNBits", "r bq bs", "d", N=WIDTH, K=INNER, **sizes),
        node("Add", "d x", "Y"),
    ]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", WIDTH])
    graph = helper.make_graph(nodes, "layers", [given], [unknown("Y")], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return meant[0], meant[1]


def test_steps_and_prompts_read_the_same_packed_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "layers.onnx"
    first, second = _model(path)
    net = ms.load_onnx(path, rows=(1, 16))
    calls = [random(rows, WIDTH, seed=rows) for rows in (1, 5, 16)]
    expected = [np.maximum(x @ first.T, 0) @ second.T + x for x in calls]
    for x, wanted in zip(calls, expected, strict=True):
        np.testing.assert_allclose(net(x), wanted, atol=1e-5 * float(np.abs(wanted).max()))
    assert net.memory().weight_bytes <= MOST_OF_FILE * path.stat().st_size

    net.export(tmp_path / "packed_layers")
    assert sum(file.stat().st_size for file in (tmp_path / "packed_layers").glob("*weights*")) <= (
        MOST_OF_FILE * path.stat().st_size
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    run = importlib.import_module("packed_layers.network").run
    for x in calls:
        np.testing.assert_array_equal(run(x), net(x))
    for name in [name for name in sys.modules if name.startswith("packed_layers")]:
        monkeypatch.delitem(sys.modules, name)
