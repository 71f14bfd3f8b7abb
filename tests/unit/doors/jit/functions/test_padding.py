"""Arrays with a border, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check, run_graph

A = np.arange(6, dtype=np.float32).reshape(2, 3)

CASES: dict[str, Any] = {
    "pad": lambda a: (np.pad(a, 1), np.pad(a, ((1, 0), (0, 2)), constant_values=7)),
    "continued": lambda a: tuple(np.pad(a, ((1, 0), (1, 2)), mode=m) for m in ("edge", "reflect", "wrap", "symmetric")),
    "bordered": lambda a: np.pad(a, ((1, 2), (0, 1)), constant_values=((1, 2), (3, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_borders_are_those_of_numpy(name: str) -> None:
    check(CASES[name], A)


def test_axes_may_be_named() -> None:
    """As NumPy has it from 2.4 on."""
    graph = ms.jit(lambda a: np.pad(a, {-1: (1, 2)})).graph(A)
    np.testing.assert_array_equal(run_graph(graph, [A])[0], np.pad(A, ((0, 0), (1, 2))))


def test_a_border_that_cannot_be_traced_is_named() -> None:
    with pytest.raises(ms.TraceError, match="'mean'"):
        ms.jit(lambda a: np.pad(a, 1, mode="mean")).graph(A)
