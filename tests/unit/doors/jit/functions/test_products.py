"""Products of matrices and tensors, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(2)
A, B = R.standard_normal((2, 3)).astype(np.float32), R.standard_normal((3, 4)).astype(np.float32)
C = R.standard_normal((2, 2, 3))

CASES: dict[str, Any] = {
    "matmul": lambda a, b, c: (a @ b, c @ b, a @ b[:, 0], a[0] @ b, a[0] @ a[1], np.linalg.matmul(a, b)),
    "dot": lambda a, b, c: (np.dot(c, b), np.dot(a, c.transpose(0, 2, 1)), a.dot(b), np.dot(a, 2), np.vdot(a, a)),
    "inner": lambda a, b, c: (np.inner(c, a), np.outer(a, b), np.linalg.vecdot(a, a)),
    "tensordot": lambda a, b, c: (np.tensordot(c, b, 1), np.tensordot(a, c, axes=([0, 1], [1, 2]))),
    "einsum": lambda a, b, c: (np.einsum("ij,jk->ki", a, b), np.einsum("bij->b", c), np.einsum("...ij,kj", c, a)),
    "interleaved": lambda a, b, c: (np.einsum(a, [0, 1], b, [1, 2]), np.einsum(c, [..., 0], a[0], [0], [...])),
    "kron": lambda a, b, c: (np.kron(a, b), np.kron(c, a)),
    "cross": lambda a, b, c: (np.cross(a, a[::-1]), np.cross(b, b[::-1], axis=0), np.linalg.cross(c, a)),
    "chains": lambda a, b, c: (np.linalg.multi_dot([a, b, b.T]), np.linalg.multi_dot([a[0], b, b.T[:, 0]])),
    "powers": lambda a, b, c: tuple(a @ np.linalg.matrix_power(b @ b.T, n) for n in (0, 1, 5)),
    "trace": lambda a, b, c: np.einsum("ii", a @ a.T),
}


@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_numpy(name: str) -> None:
    check(CASES[name], A, B, C)


def test_of_bools() -> None:
    check(
        lambda a: (a @ a.T, a @ a[0], np.einsum("ij,kj->ik", a, a), np.einsum("ij->j", a), np.tensordot(a, a.T, 1)),
        A > 0,
    )


def test_of_integers() -> None:
    small = np.array([[100, 27], [-3, 1]], np.int8)
    check(lambda a: (a @ a, np.einsum("ij,ij->i", a, a), np.dot(a, a)), small)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: np.einsum("ij,jk", a, a), "`j` is"),
        (lambda a: np.tensordot(a, a, 1), "shape-mismatch"),
        (lambda a: np.linalg.eigh(a @ a.T), r"np\.linalg\.eigh cannot be traced"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(A)
