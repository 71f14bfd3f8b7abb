"""`reduce` of ufuncs, with all that it takes, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(4)
X = R.standard_normal((5, 6)).astype(np.float32)
HOLDS = R.random((5, 6)) < 0.5
BYTES = R.integers(0, 256, (5, 6, 3)).astype(np.uint8)

CASES: dict[str, Any] = {
    "sums": lambda x, m, b: (
        np.add.reduce(x, axis=1, where=m, initial=3),
        np.add.reduce(x, (0, 1), keepdims=True, dtype=np.float64),
        np.multiply.reduce(x, -1, where=m),
    ),
    "extremes": lambda x, m, b: (
        np.maximum.reduce(x, axis=1, where=m, initial=-3),
        np.minimum.reduce(b, axis=None, dtype=np.int32),
    ),
    "truth": lambda x, m, b: (
        np.logical_and.reduce(m, axis=1, where=x > 0),
        np.logical_or.reduce(m, axis=1, initial=True),
        np.logical_xor.reduce(m, axis=1, where=x > 0, keepdims=True),
        np.logical_xor.reduce(m, axis=None, initial=True),
        np.logical_or.accumulate(x > 1, axis=1),
        np.logical_and.accumulate(b, axis=0),
    ),
    "exponentials": lambda x, m, b: (
        np.logaddexp.reduce(x, axis=1, where=m),
        np.logaddexp.reduce(x, axis=None, initial=2.0, keepdims=True),
        np.logaddexp.reduce(x, dtype=np.float64),
    ),
    "bits": lambda x, m, b: (
        np.bitwise_xor.reduce(b),
        np.bitwise_and.reduce(b, axis=1),
        np.bitwise_or.reduce(b, axis=None),
        np.bitwise_xor.reduce(b, axis=(0, 2), keepdims=True),
        np.bitwise_or.reduce(b, axis=-1, initial=8),
        np.bitwise_and.reduce(b[:, 0], axis=1, where=m[:, :3]),
        np.bitwise_xor.reduce(m, axis=1),
        np.bitwise_or.reduce(b, axis=()),
    ),
    "none": lambda x, m, b: (np.bitwise_and.reduce(b[:0]), np.bitwise_xor.reduce(b[:, :0], axis=1)),
    "halves": lambda x, m, b: (
        np.fmax.reduce(np.where(x > 0.5, np.nan, x), axis=1),
        np.fmin.reduce(x, axis=None, where=m, initial=0.25),
        np.hypot.reduce(x),
        np.hypot.reduce(b[:1]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reductions_are_those_of_numpy(name: str) -> None:
    check(CASES[name], X, HOLDS, BYTES, tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (np.subtract.reduce, "np.subtract.reduce cannot be traced(.|\n)*that of `add`, .* and `hypot` can"),
        (lambda x: np.fmax.reduce(x, where=x > 0), "with `where` has no identity: it takes `initial`, too"),
        (lambda x: np.fmin.reduce(x[:0]), "of no elements has no identity"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(X)
