"""Elements in order, places among them, and how many there are of each, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(7)
A = R.standard_normal((4, 7)).astype(np.float32)
A[1, 2] = np.nan
A[2, 3] = A[2, 5]
COUNTS = R.integers(0, 6, 20)
EDGES = np.array([-1.0, -0.5, 0.0, 0.0, 2.0])

CASES: dict[str, Any] = {
    "sort": lambda a, i, e: (np.sort(a), np.sort(a, 0), np.sort(a, None), np.sort(i), np.sort(a > 0, 1)),
    "none": lambda a, i, e: (np.sort(i[:0]), np.argsort(a[:, :0]), np.take(np.argsort(a[:0, 0]), i[:0])),
    "argsort": lambda a, i, e: (a.argsort(1, kind="stable"), np.argsort(i, kind="stable")),
    "order": lambda a, i, e: (np.lexsort((i, i % 3)), np.sort(i)[::-1][:3], np.partition(a, 2, 1)[:, 2]),
    "search": lambda a, i, e: tuple(
        np.searchsorted(e, x, side) for x in (a, e, i, a[0, 0]) for side in ("left", "right")
    ),
    "bools": lambda a, i, e: np.searchsorted([False, True, True], a > 0),
    "digitize": lambda a, i, e: tuple(
        np.digitize(x, bins, right) for x in (a, e) for bins in (BINS, BINS[::-1]) for right in (False, True)
    ),
    "isin": lambda a, i, e: (np.isin(i, [1, 4]), np.isin(i, i[:2] + 1, invert=True)),
    "bincount": lambda a, i, e: (np.bincount(i, minlength=8), np.bincount(i, a.ravel()[:20] * 0 + 2, minlength=6)),
    "choose": lambda a, i, e: (
        np.choose(i % 2, [i, -i]),
        np.choose(i % 2, [i > 2, i > 3]),
        np.choose(i % 2, [a[0, 0], 1]),
    ),
}
BINS = np.array([-1.0, 0.0, 0.5, 2.0])


@pytest.mark.parametrize("name", CASES)
def test_order_is_that_of_numpy(name: str) -> None:
    check(CASES[name], A, COUNTS, EDGES)


def test_places_among_many() -> None:
    rows, x = np.sort(R.integers(0, 500, 1000)), R.integers(-5, 510, 50)
    check(lambda a, b: (np.searchsorted(a, b), np.searchsorted(a, b, side="right")), rows, x)


def test_histograms() -> None:
    x = R.standard_normal(50).astype(np.float32)
    x[:3] = -2, 2, 0.5
    check(lambda a: np.histogram(a, 6), x)
    check(lambda a: (np.histogram(a, BINS)[0], np.histogram(a, [0, 1, 2])[0]), x)
    check(lambda a: np.histogram(a, BINS, weights=np.sign(a).astype(np.float16))[0], x)
    check(lambda a: (np.histogram(a, 8, (-2, 2))[0], np.histogram(a, 8, (-2, 2), weights=a)[0]), x, tolerance=1e-5)
    check(lambda a: np.histogram(a, 5, density=True)[0], x, tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (np.bincount, "`minlength`"),
        (lambda i: np.searchsorted(i.reshape(4, 5), 3), r"arrays of one dimension, and this is i64\[4, 5\]"),
        (lambda i: np.digitize(i, i), "increase or decrease is computed from data"),
        (lambda i: np.digitize(i, [3, 1, 2]), "its bins neither increase nor decrease"),
        (lambda i: np.histogram(i, "auto"), "'auto' depends on data"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(COUNTS)
