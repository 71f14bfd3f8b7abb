"""Functions of bits, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import run

AND, OR, XOR = ("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)


@pytest.mark.parametrize(
    ("op", "function", "dtype"),
    [
        *((*each, dtype) for each in (AND, OR, XOR) for dtype in (np.uint8, np.int8)),
        *((*each, dtype) for each, dtype in zip((AND, OR, XOR), (np.int16, np.int32, np.int64), strict=True)),
    ],
)
def test_functions_of_two_integers(op: str, function: Any, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max, 0], dtype)
    a = np.random.default_rng(0).integers(limits.min, limits.max, 2, dtype, endpoint=True)
    b = np.random.default_rng(1).integers(limits.min, limits.max, 1, dtype, endpoint=True)
    a, b = np.concatenate([a, ends]), np.concatenate([b, ends[:2]])[:, None]
    np.testing.assert_array_equal(run(op, a, b), function(a, b))


@pytest.mark.parametrize("bits", [8, 32])
def test_shifts_past_the_last_bit_leave_the_sign(bits: int) -> None:
    dtype = np.dtype(f"i{bits // 8}")
    x, by = np.array([-8, 5, -8, 5, -1], dtype), np.array([1, 1, bits, bits - 1, -2], dtype)
    np.testing.assert_array_equal(run("BitShift", x, by, opset=28, direction="RIGHT"), [-4, 2, -1, 0, -1])


@pytest.mark.parametrize("dtype", ["u1", "u2", "i1", "i4"])
def test_bits_are_inverted_in_integers_of_every_size(dtype: str) -> None:
    x = np.array([0, 1, 100, np.iinfo(dtype).max], dtype)
    np.testing.assert_array_equal(run("BitwiseNot", x), ~x)


def test_bits_are_of_integers() -> None:
    with pytest.raises(ms.RefusedModel, match="it is of integers, and its input is"):
        run("BitwiseNot", np.float32([1, 2]))
    with pytest.raises(ms.RefusedModel, match="it is of two integers of one type"):
        run("BitwiseAnd", np.int32([1]), np.int16([1]))
