"""Arrays taken apart, put together and written in part, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

A = np.arange(12, dtype=np.float32).reshape(2, 6) - 5

CASES: dict[str, Any] = {
    "turned": lambda a: tuple(np.rot90(a, k) for k in range(-1, 4)),
    "axes": lambda a: (np.rollaxis(a[None], 2), np.rollaxis(a[None], 0, 3), *np.atleast_3d(a, a[0], a[0, 0])),
    "stacks": lambda a: (np.dstack([a, a]), np.block([[a, a], [a[:1], a[1:]]]), np.block([a[0], a[1]])),
    "splits": lambda a: (*np.hsplit(a, 3), *np.vsplit(a, 2), *np.dsplit(a[None], [2]), *np.hsplit(a[0], 2)),
    "deleted": lambda a: (np.delete(a, 1, axis=1), np.delete(a, [0, -1]), np.delete(a, slice(1, 4), 1)),
    "inserted": lambda a: (np.insert(a, 1, 9, axis=1), np.insert(a, 2, a[:, 0], axis=1), np.insert(a[0], -1, 3.5)),
    "inserted at several places": lambda a: (
        np.insert(a[0], [3, 1, 1], [7, 8, 9]),
        np.insert(a, [-1, 0], a[:, :2], axis=1),
        np.insert(a, slice(0, 2), a[0], axis=0),
        np.insert(a[0], np.array([True, False, True]), 1),
        np.insert(a, [1], a[:, :2], axis=1),
    ),
    "resized": lambda a: (np.resize(a, (3, 5)), np.resize(a, 4)),
    "pieces": lambda a: (
        np.piecewise(a, [a < -1, a > 2], [lambda v: -v, 7]),
        np.piecewise(a, [a < 0, a >= 0], [-1, lambda v: v * 2]),
    ),
    "along": lambda a: (np.apply_along_axis(np.cumsum, 1, a), np.apply_along_axis(lambda r: r.sum(), 0, a)),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays_are_joined_as_by_numpy(name: str) -> None:
    check(CASES[name], A)


def test_what_would_be_too_many_parts_is_refused() -> None:
    with pytest.raises(ms.TraceError, match="would trace its function 100 times"):
        ms.jit(lambda a: np.apply_along_axis(np.sum, 1, a)).graph(np.ones((100, 2)))
