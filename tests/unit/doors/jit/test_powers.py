"""Integers to powers, against NumPy: they wrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.traced_functions import check

R = np.random.default_rng(2)


def numbers(dtype: Any) -> tuple[Any, Any]:
    return R.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, (3, 5)).astype(dtype), R.integers(0, 70, 5).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_powers_that_are_data(dtype: Any) -> None:
    check(lambda x, n: (x**n, np.power(n, x[:1] // 4 * 4 % 8)), *numbers(dtype))
    check(lambda x, n: (2**n, 3**n, np.power(np.array(-6).astype(dtype), n), 0**n, 1**n), *numbers(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
def test_powers_that_are_known(dtype: Any) -> None:
    check(lambda x, _: tuple(x**n for n in (0, 1, 2, 5, 16, 17, 33, 100)), *numbers(dtype))


def test_types_and_shapes() -> None:
    x, n = R.integers(-3, 4, (2, 1)), R.integers(0, 70, 5).astype(np.uint8)
    check(lambda x, n: (x**n, (x > 0) ** (n > 9), x.astype(np.int16) ** n, np.power([[2]], n)), x, n)
