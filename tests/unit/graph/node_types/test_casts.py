"""Conversions between element types, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType, integer_range
from metasched.graph.reading.tensors import number_of
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


SMALL_INTEGERS = [d for d in DType if d.is_integer and d.is_storage]


@pytest.mark.parametrize("dtype", SMALL_INTEGERS, ids=str)
@pytest.mark.parametrize("given", ["float32", "float16", "int32", "uint8"])
def test_what_becomes_an_integer_of_few_bits_wraps(given: str, dtype: DType) -> None:
    x = np.arange(-20, 40).clip(0 if given == "uint8" else -20).astype(given)
    lowest, highest = integer_range(dtype)
    expected = (x.astype(np.int64) - lowest) % (highest - lowest + 1) + lowest
    for found in (run("Cast", x, to=number_of(dtype)), run("CastLike", x, np.zeros(1, dtype.numpy))):
        assert found.dtype == dtype.numpy
        np.testing.assert_array_equal(found.astype(np.int64), expected)
    back = run("Cast", expected.astype(dtype.numpy), to=number_of(DType.F32))
    np.testing.assert_array_equal(back, expected)


def test_bits_of_few_are_no_bits_of_a_byte() -> None:
    with pytest.raises(ms.RefusedModel, match="the language reads no bits of u4 as u8"):
        run("BitCast", np.zeros(4, DType.U4.numpy), to=number_of(DType.U8), opset=26)
