"""Quantised numbers, against NumPy."""

from __future__ import annotations

import numpy as np

from tests.support.onnx_models import run


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
