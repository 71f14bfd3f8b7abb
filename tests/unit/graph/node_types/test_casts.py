"""Conversions between element types, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import run

CASTS = [
    ("float32", 6, "int32"),
    ("float32", 9, "bool"),
    ("bool", 1, "float32"),
    ("float32", 10, "float16"),
    ("int32", 3, "int8"),
]


@pytest.mark.parametrize(("given", "number", "made"), CASTS)
def test_casts(given: str, number: int, made: str) -> None:
    x = np.array([0, 1, 2, -3, 200.7, 0.5]).astype(given)
    np.testing.assert_array_equal(run("Cast", x, to=number), x.astype(made))
