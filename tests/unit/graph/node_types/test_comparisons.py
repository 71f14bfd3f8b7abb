"""Comparisons, logic and choices, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import integers, random, run

X = random(2, 5)


@pytest.mark.parametrize(
    ("op", "function"), [("Equal", np.equal), ("Less", np.less), ("GreaterOrEqual", np.greater_equal)]
)
def test_comparisons(op: str, function: Callable[[Any, Any], Any]) -> None:
    a, b = integers(3, 4, low=0, high=3), integers(4, low=0, high=3, seed=1)
    np.testing.assert_array_equal(run(op, a, b), function(a, b))


@pytest.mark.parametrize(("op", "function"), [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)])
def test_logic(op: str, function: Callable[[Any, Any], Any]) -> None:
    a, b = np.array([[True], [False]]), np.array([True, False])
    np.testing.assert_array_equal(run(op, a, b), function(a, b))


def test_where_chooses_and_broadcasts() -> None:
    condition = np.array([True, False])
    np.testing.assert_array_equal(
        run("Where", condition, X[:, :1], X[:, 1:3]), np.where(condition, X[:, :1], X[:, 1:3])
    )
