"""The sizes of a call are those of its inputs, and those that are none of a range are refused with the nearest."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.graph.buckets.given_sizes import given_sizes

RANGES = {"h": ms.SizeRange(32, 128, step=32), "n": ms.SizeRange(1, 4)}
DIMS = {"x": ("n", "", "h"), "y": ("h",)}


def test_sizes_are_read_off_inputs() -> None:
    assert given_sizes(RANGES, DIMS, [np.zeros((3, 7, 64)), np.zeros(64)]) == {"n": 3, "h": 64}


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((3, 7, 65), 64, r"`h`, of the input `x`, is 65, and .* 32 to 128 in steps of 32; the nearest are 64 and 96$"),
        ((5, 7, 64), 64, "`n`, of the input `x`, is 5, and the network was loaded for 1 to 4$"),
        ((3, 7, 64), 96, "`h` is 64 in the input `x`, and 96 in `y`"),
        ((3, 64), 64, "the input `x` has 3 dimensions"),
    ],
)
def test_what_does_not_fit_is_said(x: tuple[int, ...], y: int, message: str) -> None:
    with pytest.raises(ms.KernelError, match=message):
        given_sizes(RANGES, DIMS, [np.zeros(x), np.zeros(y)])
