"""Systems of a few linear equations, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(13)
A, B = R.standard_normal((4, 4)), R.standard_normal((4, 2))
# The pivot of the first step is in another row.
A[0, 0] = 0
MANY = R.standard_normal((2, 3, 3)).astype(np.float32)
LARGE = np.eye(17)


def test_solutions_inverses_and_determinants() -> None:
    check(lambda a, b: (np.linalg.solve(a, b), np.linalg.solve(a, b[:, 0]), np.linalg.inv(a)), A, B, tolerance=1e-12)
    check(lambda a: (np.linalg.det(a), np.linalg.det(a[:1, 1:2])), A, tolerance=1e-12)
    check(np.linalg.inv, np.array([[1, 2], [3, 5]]), tolerance=1e-12)


def test_of_several_matrices() -> None:
    check(lambda a: (np.linalg.inv(a), np.linalg.det(a), np.linalg.solve(a, a[0, :, :2])), MANY, tolerance=1e-4)


def test_determinants_of_singular_matrices_are_zero() -> None:
    for singular in (np.zeros((3, 3)), np.ones((4, 4)), np.diag([1.0, 0.0, 2.0])):
        check(lambda a: (np.linalg.det(a), *np.linalg.slogdet(a)), singular)
    assert not np.isfinite(ms.jit(np.linalg.inv)(np.ones((3, 3)))).all()


def test_roots_of_matrices() -> None:
    check(lambda a: np.linalg.cholesky(a @ a.T + np.eye(4), upper=True), A, tolerance=1e-12)
    check(lambda a: np.linalg.cholesky(a @ a.T + np.eye(4)), A, tolerance=1e-12)
    check(lambda a: np.linalg.cholesky(a @ a.swapaxes(1, 2) + np.eye(3, dtype=np.float32)), MANY, tolerance=1e-4)


def test_logarithms_of_determinants() -> None:
    check(lambda a: (np.linalg.slogdet(a), np.linalg.slogdet(-a[:3, :3]).logabsdet), A, tolerance=1e-12)
    check(np.linalg.slogdet, MANY, tolerance=1e-4)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_orthogonal_factors(mode: Any) -> None:
    for a in (A, A[:, :2], A[:2], np.array([[3, 1], [4, 1], [0, 2]]), np.triu(A)):
        check(lambda a: np.linalg.qr(a, mode), a, tolerance=1e-12)
    check(lambda a: np.linalg.qr(a, mode), MANY, tolerance=1e-4)
    check(lambda a: np.linalg.qr(a).Q @ np.linalg.qr(a).R, A, tolerance=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_squares_beyond_the_type_are_none_of_orthogonal_factors(scale: float) -> None:
    def factors(a: Any) -> Any:
        q, r = np.linalg.qr(a * np.float32(scale))
        return q, r / np.float32(scale)

    check(factors, MANY[0], tolerance=1e-4)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: np.linalg.inv(a[:3]), "are square"),
        (np.linalg.inv, "elimination of 17 equations"),
        (np.linalg.qr, "17 equations or columns"),
        (lambda a: np.linalg.qr(a[:4], "raw"), "'raw'"),
        (lambda a: np.linalg.qr(a[0]), "two dimensions"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(LARGE)
