"""Softmax and its relatives, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import metasched as ms
from tests.support.onnx_models import check_some_rows, model, node, random, run, value

X = random(2, 3, 4)


def test_halves_are_rounded_after_each_step() -> None:
    x = random(3, 7, dtype=np.float16)
    wide = x.astype(np.float32)
    powers = np.exp(wide - wide.max(-1, keepdims=True)).astype(np.float16).astype(np.float32)
    total = powers.sum(-1, keepdims=True).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(run("Softmax", x), (powers / total).astype(np.float16))
    np.testing.assert_allclose(run("LogSoftmax", x).astype(np.float64), log_softmax(wide, -1), atol=4e-3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int) -> None:
    np.testing.assert_allclose(run("Softmax", X * 50, axis=axis), softmax(X * 50, axis), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(run("LogSoftmax", X * 50, axis=axis), log_softmax(X * 50, axis), rtol=1e-5, atol=1e-5)
    assert run("Hardmax", X, axis=axis).sum() == X.size / X.shape[axis]


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
def test_of_as_many_elements_as_data_decide(dtype: Any) -> None:
    x = random(7, 3, dtype=dtype) * dtype(2)
    x[2], x[5, 0] = -np.inf, -np.inf
    masks = [np.ones(7, bool), np.arange(7) < 2, np.arange(7) % 3 == 1, np.arange(7) == 2]
    ops = ["Softmax", "LogSoftmax", "Hardmax"]
    nodes = [node(op, "some", f"{op}{axis}", axis=axis) for op in ops for axis in (0, 1)]
    check_some_rows(nodes, [n.output[0] for n in nodes], x, masks, tolerance=1e-2 if dtype == np.float16 else 1e-5)


def test_a_row_has_one_logarithm() -> None:
    """Taken for each element it takes as long as the exponentials."""
    network = ms.load_onnx(model([node("LogSoftmax", "X")], [value("X", X)]))
    (program,) = (str(found.program) for found in network.graph.computes)
    (stage,) = (line for line in program.splitlines() if "log(" in line)
    assert " = log(" in stage
