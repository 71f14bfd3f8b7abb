"""Normalisations, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run

X = random(2, 3, 4)


def test_normalisations() -> None:
    scale, bias = random(4), random(4, seed=1)
    wide = X.astype(np.float64)
    mean, deviation = wide.mean(-1, keepdims=True), np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    made, means, inverse = run("LayerNormalization", X, scale, bias, outputs=3)
    np.testing.assert_allclose(made, (wide - mean) / deviation * scale + bias, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(means, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=1e-5)
    root = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run("RMSNormalization", X, scale, opset=23), wide / root * scale, rtol=1e-4)
    channels = [random(3, seed=n) + 3 for n in range(4)]
    a, b, m, v = (c[:, None] for c in channels)
    made = run("BatchNormalization", X, *channels, constants=(1, 2, 3, 4))
    np.testing.assert_allclose(made, (wide - m) / np.sqrt(v + 1e-5) * a + b, rtol=1e-4)
    made = run("InstanceNormalization", X, *channels[:2])
    np.testing.assert_allclose(made, (wide - mean) / deviation * a + b, rtol=1e-4, atol=1e-5)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(run("LpNormalization", X, axis=1), X / length, rtol=1e-5)


def test_training_is_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="in training"):
        run("BatchNormalization", X, *[random(3)] * 4, training_mode=1)
