"""Softmax and its relatives, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from tests.support.onnx_models import random, run

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
