"""Convolutions, derivatives, interpolation and windows, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(5)
X, K = R.standard_normal(17), R.standard_normal(4)
IMAGE = R.standard_normal((5, 4)).astype(np.float32)
ROUND = np.array([0, 1, 2, 3, 0, 1, 5, 3, 1, -1, -3, 0])
PLACES = np.sort(R.standard_normal(6))

CASES: dict[str, Any] = {
    "convolve": lambda x, k, m, p: tuple(np.convolve(*pair, mode) for mode in MODES for pair in ((x, k), (k, x))),
    "correlate": lambda x, k, m, p: tuple(np.correlate(*pair, mode) for mode in MODES for pair in ((x, k), (k, x))),
    "types": lambda x, k, m, p: (
        np.convolve(m[0], k),
        np.convolve(m[0], m[1]),
        np.convolve((x * 9).astype(int), [1, 2]),
        np.convolve(x > 0, k > 0),
        np.correlate(x > 1, k < 0, "same"),
    ),
    "gradient": lambda x, k, m, p: (*np.gradient(m), np.gradient(x, 0.5), np.gradient(m, 2.0, axis=1, edge_order=2)),
    "places": lambda x, k, m, p: (np.gradient(x[:6], p), *np.gradient(m[:, :3], 2.0, p[:3])),
    "interp": lambda x, k, m, p: (np.interp(x, p, x[:6]), np.interp(x, p, x[:6], left=9, right=-9), np.interp(m, p, p)),
    "windows": lambda x, k, m, p: tuple(
        np.lib.stride_tricks.sliding_window_view(a, w, axis=n)
        for a, w, n in ((x, 3, None), (m, (2, 3), None), (m, 2, 0))
    ),
    "sums": lambda x, k, m, p: (np.ediff1d(m), np.ediff1d(x, to_end=[1.0], to_begin=0.0), np.polyval([1.0, 2.0], m)),
    "sinc": lambda x, k, m, p: (np.sinc(x), np.sinc(x * 0), np.sinc(x.astype(np.float16) * 0), np.sinc(k.astype(int))),
}
MODES = ("full", "same", "valid")


@pytest.mark.parametrize("name", CASES)
def test_signals_are_those_of_numpy(name: str) -> None:
    check(CASES[name], X, K, IMAGE, PLACES, tolerance=1e-6)


@pytest.mark.skipif(not hasattr(np, "trapezoid"), reason="NumPy 1 calls it otherwise")
def test_areas() -> None:
    check(lambda x, m: (np.trapezoid(x), np.trapezoid(m, dx=0.1, axis=0), np.trapezoid(m, m * 2)), X, IMAGE)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32])
def test_turns_of_integers_are_whole(dtype: Any) -> None:
    check(lambda p: (np.unwrap(p, period=4), np.unwrap(p, period=5), np.unwrap(p, 3, period=4.0)), ROUND.astype(dtype))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.convolve(x, x, "some"), "mode='some'"),
        (lambda x: np.interp(x, x, x, period=3), "period"),
        (lambda x: np.gradient(x[:1]), "too few"),
        (lambda x: np.gradient(x > 0), "NumPy subtracts no bools"),
        (lambda x: np.ediff1d(x > 0), "NumPy subtracts no bools"),
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, 18), "larger than the axis"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(X)
