"""Activation functions, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import random, run

X = random(2, 5)

ATTRIBUTES: list[tuple[str, dict[str, float], Callable[[Any], Any]]] = [
    ("Elu", {"alpha": 0.5}, lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x))),
    ("Celu", {"alpha": 0.5}, lambda x: np.maximum(x, 0) + np.minimum(0, 0.5 * np.expm1(x / 0.5))),
    ("LeakyRelu", {"alpha": 0.2}, lambda x: np.where(x >= 0, x, 0.2 * x)),
    ("ThresholdedRelu", {"alpha": 0.7}, lambda x: np.where(x > 0.7, x, 0)),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    ("Shrink", {"lambd": 0.6, "bias": 0.1}, lambda x: np.where(x < -0.6, x + 0.1, np.where(x > 0.6, x - 0.1, 0))),
    ("Selu", {}, lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(x))),
    ("Gelu", {}, lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
    ("Gelu", {"approximate": "tanh"}, lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "expected"), ATTRIBUTES, ids=lambda v: v if isinstance(v, str) else "")
def test_activations_with_attributes(op: str, attributes: dict[str, Any], expected: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(run(op, X, **attributes), expected(X.astype(np.float64)), rtol=1e-4, atol=1e-6)
