"""Arithmetic of several operands, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run

X = random(2, 5)


@pytest.mark.parametrize(
    ("op", "function"), [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]
)
def test_operands_are_broadcast(op: str, function: Callable[[Any, Any], Any]) -> None:
    a, b = random(2, 1, 4), random(3, 1, seed=1) + 4
    np.testing.assert_allclose(run(op, a, b), function(a, b), rtol=1e-6)


def test_integers_are_divided_towards_zero() -> None:
    a, b = np.int32([7, -7, 7, -7, 6]), np.int32([2, 2, -2, -2, -3])
    np.testing.assert_array_equal(run("Div", a, b), [3, -3, -3, 3, -2])


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_have_the_sign_of_the_divisor_or_of_the_dividend(fmod: int) -> None:
    a, b = np.int32([7, -7, 7, -7]), np.int32([3, 3, -3, -3])
    np.testing.assert_array_equal(run("Mod", a, b, fmod=fmod), (np.fmod if fmod else np.mod)(a, b))
    np.testing.assert_allclose(run("Mod", a + 0.5, b / 2, fmod=fmod), (np.fmod if fmod else np.mod)(a + 0.5, b / 2))


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_by_infinity_and_zero_are_those_of_numpy(fmod: int) -> None:
    a, b = np.float32([0, -1, 3, -3, np.inf, np.nan, 5]), np.float32([np.inf, np.inf, np.inf, -np.inf, 2, 1, 0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run("Mod", a, b, fmod=fmod), (np.fmod if fmod else np.mod)(a, b))


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_large_quotients_are_exact(fmod: int) -> None:
    """Of products in f32, quotients beyond 2**24 would leave anything."""
    a, b = np.float32([1e8, -123456792, 2**29 - 64, 3e-31]), np.float32([3, 7, 0.9, 1e-38])
    np.testing.assert_array_equal(run("Mod", a, b, fmod=fmod), (np.fmod if fmod else np.mod)(a, b))


def test_integers_are_raised_to_powers() -> None:
    np.testing.assert_array_equal(run("Pow", np.int32([2, 3, -4]), np.float32([3, 2, 1])), [8, 9, -4])


@pytest.mark.parametrize(("op", "function"), [("Max", np.maximum), ("Min", np.minimum)])
def test_extrema_of_several_operands_propagate_nan(op: str, function: Callable[[Any, Any], Any]) -> None:
    a, b, c = np.float32([1, np.nan, 3]), np.float32([2, 2, 2]), np.float32([[0], [5]])
    np.testing.assert_array_equal(run(op, a, b, c), function(function(a, b), c))


def test_a_bound_that_is_left_out_does_not_clip() -> None:
    np.testing.assert_array_equal(run("Clip", X, None, np.float32(0.5)), np.minimum(X, 0.5))
    np.testing.assert_array_equal(run("Clip", X, np.float32(1), np.float32(-1), constants=(1, 2)), np.full_like(X, -1))


def test_operands_of_two_types_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="different element types"):
        run("Add", X, X.astype(np.float64))
