"""Activations of ONNX Runtime, against NumPy."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tests.support import onnx_models
from tests.support.onnx_models import random

run = partial(onnx_models.run, domain="com.microsoft")
_erf = np.vectorize(math.erf)


def test_gelu_by_the_error_function() -> None:
    x, bias = random(3, 8), random(8, seed=1)
    np.testing.assert_allclose(run("Gelu", x), x * (1 + _erf(x / math.sqrt(2))) / 2, atol=2e-6)
    y = x + bias
    np.testing.assert_allclose(run("BiasGelu", x, bias), y * (1 + _erf(y / math.sqrt(2))) / 2, atol=2e-6)


@pytest.mark.parametrize("with_bias", [False, True])
def test_gelu_by_the_hyperbolic_tangent(with_bias: bool) -> None:
    x, bias = random(3, 8), random(8, seed=1)
    y = x + bias if with_bias else x
    wanted = y / 2 * (1 + np.tanh(0.7978845608 * y + 0.0356774081 * y**3))
    np.testing.assert_allclose(run("FastGelu", x, *([bias] if with_bias else [])), wanted, atol=2e-6)


def test_gelu_by_the_logistic_function() -> None:
    x = random(3, 8)
    np.testing.assert_allclose(run("QuickGelu", x), x / (1 + np.exp(-1.702 * x)), atol=2e-6)
    np.testing.assert_allclose(run("QuickGelu", x, alpha=1.0), x / (1 + np.exp(-x)), atol=2e-6)


def test_a_bias_and_what_came_before_are_added() -> None:
    x, bias, skip = random(2, 3, 8), random(8, seed=1), random(2, 3, 8, seed=2)
    np.testing.assert_allclose(run("BiasAdd", x, bias, skip), x + bias + skip, atol=1e-6)
