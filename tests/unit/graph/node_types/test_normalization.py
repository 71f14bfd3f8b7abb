"""Normalisations, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (6, 3)])
def test_in_training_channels_are_normalised_by_their_own_statistics(shape: tuple[int, ...]) -> None:
    """As weights are standardised by some models, in which nothing reads the statistics."""
    x, scale, bias, mean, variance = random(*shape), random(3, seed=1), random(3, seed=2), random(3, seed=3), random(3)
    attributes = {"training_mode": 1, "epsilon": 1e-3, "momentum": 0.75}
    made = run("BatchNormalization", x, scale, bias, mean, variance, outputs=3, **attributes)
    axes = (0, *range(2, x.ndim))
    own_mean, own_variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    by_channel = [1, 3, *[1] * (x.ndim - 2)]
    normal = (x - own_mean) / np.sqrt(own_variance + 1e-3)
    expected = normal * scale.reshape(by_channel) + bias.reshape(by_channel)
    np.testing.assert_allclose(made[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made[1], 0.75 * mean + 0.25 * own_mean.reshape(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made[2], 0.75 * variance + 0.25 * own_variance.reshape(-1), rtol=1e-5, atol=1e-6)
    only = run("BatchNormalization", x, scale, bias, mean, variance, **attributes)
    np.testing.assert_array_equal(only, made[0])
