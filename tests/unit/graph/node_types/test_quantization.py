"""Quantised numbers, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.dtypes import DType, integer_range
from tests.support.onnx_models import integers, random, run


def test_quantised_numbers_round_to_even_and_stay_in_range() -> None:
    x, scale = np.float32([0.25, 0.75, -0.25, 1000, -1000]), np.float32(0.5)
    made = run("QuantizeLinear", x, scale, np.int8(3))
    np.testing.assert_array_equal(made, [3, 5, 3, 127, -128])
    np.testing.assert_array_equal(run("DequantizeLinear", made, scale, np.int8(3)), [0, 1, 0, 62, -65.5])


def test_numbers_are_quantised_by_their_own_range() -> None:
    x = np.float32([0, 2, -3, -2.5, 1.34, 0.5])
    made, scale, zero = run("DynamicQuantizeLinear", x, outputs=3)
    assert (made.dtype, zero) == (np.uint8, 153)
    np.testing.assert_allclose((made.astype(np.float32) - zero) * scale, x, atol=scale)


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_integer and d.is_storage], ids=str)
@pytest.mark.parametrize(("axis", "block", "shape"), [(1, 0, ()), (0, 0, (6,)), (1, 0, (10,)), (1, 5, (6, 2))])
def test_integers_of_few_bits(axis: int, block: int, shape: tuple[int, ...], dtype: DType) -> None:
    x, scales = random(6, 10) * 9, np.abs(random(*shape, seed=1)) + np.float32(0.5)
    lowest, highest = integer_range(dtype)
    zeros = integers(*shape, low=lowest, high=highest + 1, seed=2)
    more: dict[str, Any] = {"axis": axis, **({"block_size": block} if block else {})}
    opset = 21 if dtype.digits == DType.I4.digits else 25
    quantised = run("QuantizeLinear", x, scales, zeros.astype(dtype.numpy), opset=opset, **more)
    assert quantised.dtype == dtype.numpy
    wide_scales, wide_zeros = scales, zeros
    if block:
        wide_scales, wide_zeros = (np.repeat(part, block, axis) for part in (scales, zeros))
    elif shape:
        wide_scales, wide_zeros = (part.reshape([-1, 1] if axis == 0 else [1, -1]) for part in (scales, zeros))
    expected = np.clip(np.rint(x / wide_scales) + wide_zeros, lowest, highest)
    np.testing.assert_array_equal(quantised.astype(np.float32), expected)
    back = run("DequantizeLinear", quantised, scales, zeros.astype(dtype.numpy), opset=opset, **more)
    np.testing.assert_allclose(back, (expected - wide_zeros) * wide_scales, rtol=1e-6)
