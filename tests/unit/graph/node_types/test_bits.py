"""Functions of bits, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import run


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize(
    ("op", "function"),
    [("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)],
)
def test_functions_of_two_integers(op: str, function: Any, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max, 0], dtype)
    a = np.random.default_rng(0).integers(limits.min, limits.max, 50, dtype, endpoint=True)
    b = np.random.default_rng(1).integers(limits.min, limits.max, 2, dtype, endpoint=True)
    a, b = np.concatenate([a, ends]), np.concatenate([b, ends])[:, None]
    np.testing.assert_array_equal(run(op, a, b), function(a, b))
