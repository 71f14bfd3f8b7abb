"""Functions of one operand, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import random, run

X = random(2, 5)
POSITIVE = np.abs(X) + np.float32(0.1)
SMALL = X / 3

UNARY: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "Abs": (X, np.abs),
    "Acos": (SMALL, np.arccos),
    "Acosh": (POSITIVE + 1, np.arccosh),
    "Asin": (SMALL, np.arcsin),
    "Asinh": (X, np.arcsinh),
    "Atan": (X * 9, np.arctan),
    "Atanh": (SMALL, np.arctanh),
    "Ceil": (X, np.ceil),
    "Cos": (X, np.cos),
    "Cosh": (X, np.cosh),
    "Erf": (X, np.vectorize(math.erf)),
    "Exp": (X, np.exp),
    "Floor": (X, np.floor),
    "Log": (POSITIVE, np.log),
    "Neg": (X, np.negative),
    "Reciprocal": (X, np.reciprocal),
    "Relu": (X, lambda x: np.maximum(x, 0)),
    "Round": (np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, -3.2]), np.round),
    "Sigmoid": (X, lambda x: 1 / (1 + np.exp(-x))),
    "Sign": (np.float32([-2, 0, 3]), np.sign),
    "Sin": (X, np.sin),
    "Sinh": (X, np.sinh),
    "Softplus": (np.float32([-100, -1, 0, 1, 100]), lambda x: np.logaddexp(0, x)),
    "Softsign": (X, lambda x: x / (1 + np.abs(x))),
    "Sqrt": (POSITIVE, np.sqrt),
    "Tan": (X, np.tan),
    "Tanh": (X, np.tanh),
    "Mish": (X, lambda x: x * np.tanh(np.logaddexp(0, x))),
    "HardSwish": (X * 3, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
}


@pytest.mark.parametrize("op", sorted(UNARY))
def test_functions_of_one_operand(op: str) -> None:
    x, expected = UNARY[op]
    np.testing.assert_allclose(run(op, x), expected(x.astype(np.float64)), rtol=2e-5, atol=1e-6)


def test_hyperbolic_functions_of_large_numbers_are_finite_where_they_should_be() -> None:
    x = np.float32([3e20, -3e20])
    np.testing.assert_allclose(run("Asinh", x), np.arcsinh(x), rtol=1e-6)
    np.testing.assert_allclose(run("Acosh", x[:1]), np.arccosh(x[:1]), rtol=1e-6)
    np.testing.assert_allclose(run("Sinh", np.float32([89])), np.sinh(np.float32([89])), rtol=1e-6)


def test_nan_and_infinity_are_found() -> None:
    x = np.float32([1, np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(run("IsNaN", x), np.isnan(x))
    np.testing.assert_array_equal(run("IsInf", x, detect_negative=0), np.isposinf(x))
    np.testing.assert_array_equal(run("IsInf", x, detect_negative=0, detect_positive=0), [False] * 4)
