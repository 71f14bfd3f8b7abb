"""Bits of bytes, apart and together, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(17)
BYTES = R.integers(0, 256, (3, 4)).astype(np.uint8)
TRUTH = R.random((3, 13)) < 0.5


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_apart_and_together(axis: Any, order: Any) -> None:
    check(lambda x: np.unpackbits(x, axis=axis, bitorder=order), BYTES)
    check(lambda x: (np.packbits(x, axis=axis, bitorder=order), np.packbits(x[:, 1] * 3)), TRUTH)


@pytest.mark.parametrize("count", [0, 5, 90, 97, 200, -3])
def test_so_many_bits(count: int) -> None:
    check(lambda x: np.unpackbits(x, count=count), BYTES)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.unpackbits(x.astype(np.int16)), "uint8, and this is of int16"),
        (lambda x: np.packbits(x / 2), "integers or bools"),
        (lambda x: np.unpackbits(x, bitorder="middle"), "'middle'"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(BYTES)
