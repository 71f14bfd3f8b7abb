"""New arrays, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.traced_functions import check

A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2

CASES: dict[str, Any] = {
    "like": lambda a: (np.zeros((2, 2), like=a), np.ones(3, np.int32, like=a), np.full((2,), 7, like=a)),
    "known": lambda a: (np.arange(1, 9, 2, like=a), np.eye(2, k=1, like=a), np.tri(3, like=a), np.identity(2, like=a)),
    "nested": lambda a: (np.array([[a[0, 0], 1], [2, a[1, 1]]], like=a), np.array([a, a], np.float64, like=a)),
    "filled": lambda a: (
        np.full((2, 2), a[0, 1], like=a),
        np.full_like(a, 3, dtype=int),
        np.where(np.zeros_like(a) == 0, a, np.empty_like(a)),
    ),
    "between": lambda a: (np.linspace(a[0, 0], a[1, 1], 5), np.linspace(a[0], 9, 4, endpoint=False, axis=1)),
    "whole steps": lambda a: (
        np.linspace(a, 0, 4, dtype=int),
        np.linspace(a, 3, 4, dtype=np.int8),
        np.linspace(a, 1, 3, dtype="f8"),
    ),
    "one step": lambda a: (np.linspace(a, 9, 1), a * np.linspace(a, 9, 1, retstep=True)[1]),
    "between powers": lambda a: (
        np.logspace(a[0, 0], a[1, 1], 5),
        np.logspace(a[0], 2, 4, base=2, endpoint=False),
        np.logspace(a[0, 0], 2, 4, dtype=int),
    ),
    "grids": lambda a: (*np.meshgrid(a[0], a[:, 1]), *np.meshgrid(a[0], a[:, 1], indexing="ij", sparse=True)),
    "diagonals": lambda a: (np.diag(a, 1), np.diag(a[0]), np.diag(a[0], -2), np.diagflat(a, 1)),
    "powers": lambda a: (np.vander(a[0]), np.vander(a[0], 2, increasing=True), np.vander(a[0], 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays_are_made_as_by_numpy(name: str) -> None:
    check(CASES[name], A)


@pytest.mark.parametrize("shape", [(7, 3), (2, 5), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(shape: tuple[int, ...], wrap: bool) -> None:
    def filled(x: Any) -> Any:
        y = x.copy()
        np.fill_diagonal(y, 9, wrap=wrap)
        return y

    check(filled, np.zeros(shape, np.float32))
