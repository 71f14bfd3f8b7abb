"""Systems of a few linear equations, and factors of matrices of a few columns, written step by step: each takes some
programs.

What NumPy calls singular and raises an error for gives infinities and NaN here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.graph.errors import Unsupported

# Equations up to here: a step of each more is compiled.
_MOST_STEPS = 16


def _square(trace: ArrayTrace, a: Any) -> Any:
    """Matrices in floats. Raises Unsupported for what is not square, or large."""
    x = _matrices(trace, a)
    if x.shape[-1] != x.shape[-2]:
        raise Unsupported(f"matrices are square, and these are of {x.shape}")
    require_few_steps(x.shape[-1])
    return x


def _matrices(trace: ArrayTrace, a: Any) -> Any:
    x = trace.array(trace.value(a))
    if x.ndim < 2:
        raise Unsupported(f"matrices have two dimensions, and this is of {x.shape}")
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def require_few_steps(steps: int) -> int:
    """A number of steps after one another. Raises Unsupported for many."""
    if steps > _MOST_STEPS:
        raise Unsupported(
            f"elimination of {steps} equations or columns is as many steps after one another, "
            f"and up to {_MOST_STEPS} are traced: "
            "compute it outside of the function, and give it the result"
        )
    return steps


def gauss_jordan(matrix: Any, equations: int) -> tuple[Any, list[Any]]:
    """The columns behind a square matrix, solved for (Gauss and Jordan), and the pivots with the signs of the swaps.

    The pivot of each step is the largest element below, as in LAPACK's `getrf`. Where it is zero, so is what is below.
    """
    rows, pivots = np.arange(equations), []
    for step in range(equations):
        sizes = np.where(rows >= step, np.abs(matrix[..., step]), -1.0)
        place = np.argmax(sizes, axis=-1, keepdims=True)
        pivot = np.take_along_axis(matrix, place[..., None], axis=-2)
        swapped = np.take_along_axis(matrix, np.where(rows == place, step, rows)[..., None], axis=-2)
        own = pivot[..., step : step + 1]
        pivots.append(np.where(place == step, 1.0, -1.0).astype(matrix.dtype) * own[..., 0])
        factors = np.where(own == 0, 0.0, swapped[..., step : step + 1] / own).astype(matrix.dtype)
        rest = swapped - factors * pivot
        matrix = np.where((rows == step)[:, None], pivot / own, rest)
    return matrix[..., equations:], pivots


@traces("linalg.solve")
def solve(trace: ArrayTrace, a: Any, b: Any) -> Any:
    x, right = _square(trace, a), trace.array(trace.value(b))
    found, _ = solve_columns(x, right[:, None] if right.ndim == 1 else right)
    return found[..., 0] if right.ndim == 1 else found


def solve_columns(x: Any, columns: Any) -> tuple[Any, list[Any]]:
    """What square matrices times give columns, and the pivots. Raises Unsupported for many equations."""
    require_few_steps(x.shape[-1])
    kind = np.result_type(x.dtype, columns.dtype)
    batch = np.broadcast_shapes(x.shape[:-2], columns.shape[:-2])
    parts = [np.broadcast_to(part, (*batch, *part.shape[-2:])).astype(kind) for part in (x, columns)]
    return gauss_jordan(np.concatenate(parts, axis=-1), x.shape[-1])


@traces("linalg.inv")
def inverse(trace: ArrayTrace, a: Any) -> Any:
    x = _square(trace, a)
    return solve(trace, x, np.eye(x.shape[-1], dtype=x.dtype))


@traces("linalg.det")
def determinant(trace: ArrayTrace, a: Any) -> Any:
    x = _square(trace, a)
    _, pivots = gauss_jordan(x, x.shape[-1])
    found = pivots[0]
    for pivot in pivots[1:]:
        found = found * pivot
    return found[..., 0]


class SignAndLog(NamedTuple):
    """What `np.linalg.slogdet` gives, by NumPy's names."""

    sign: Any
    logabsdet: Any


@traces("linalg.slogdet")
def sign_and_log_of_determinant(trace: ArrayTrace, a: Any) -> SignAndLog:
    x = _square(trace, a)
    _, pivots = gauss_jordan(x, x.shape[-1])
    every = np.concatenate(pivots, axis=-1)
    return SignAndLog(np.prod(np.sign(every), axis=-1), np.sum(np.log(np.abs(every)), axis=-1))


@traces("linalg.cholesky")
def cholesky(trace: ArrayTrace, a: Any, /, *, upper: bool = False) -> Any:
    x = _square(trace, a)
    found, _ = cholesky_factor(np.swapaxes(x, -1, -2) if upper else x)
    return np.swapaxes(found, -1, -2) if upper else found


def cholesky_factor(x: Any) -> tuple[Any, list[Any]]:
    """The lower factor of matrices of which the lower triangle is read, and the pivots, whose roots are its diagonal.

    Raises Unsupported for many columns.
    """
    rows, columns, pivots = np.arange(require_few_steps(x.shape[-1])), [], []
    for step in range(x.shape[-1]):
        pivots.append(x[..., step : step + 1, step])
        column = np.where(rows >= step, x[..., step] / np.sqrt(pivots[-1]), 0.0).astype(x.dtype)
        columns.append(column)
        x = x - column[..., :, None] * column[..., None, :]
    return np.stack(columns, axis=-1), pivots


class OrthogonalFactors(NamedTuple):
    """What `np.linalg.qr` gives, by NumPy's names."""

    Q: Any
    R: Any


@traces("linalg.qr")
def orthogonal_factors(trace: ArrayTrace, a: Any, mode: str = "reduced") -> Any:
    """Householder's reflections, one a column, with the signs of LAPACK's `geqrf`."""
    if mode not in ("reduced", "complete", "r"):
        raise Unsupported(f"mode={mode!r}: reduced, complete and r can be traced")
    x = _matrices(trace, a)
    height, width = x.shape[-2:]
    steps = require_few_steps(min(height, width))
    q = np.broadcast_to(np.eye(height, dtype=x.dtype), (*x.shape[:-1], height))
    for step in range(steps):
        v, scale = _reflection(x, step)
        x = x - scale * v[..., :, None] * np.matmul(v[..., None, :], x)
        q = q - scale * np.matmul(q, v[..., :, None]) * v[..., None, :]
    kept = height if mode == "complete" else steps
    r = np.triu(x[..., :kept, :])
    return r if mode == "r" else OrthogonalFactors(q[..., :kept], r)


def _reflection(x: Any, step: int) -> tuple[Any, Any]:
    """A vector `v` and a scale: `I - scale v v^T` makes zeros below the diagonal of a column. Zero where there are.

    The column is divided by its largest element, so that no square is beyond the type or nothing.
    """
    rows = np.arange(x.shape[-2])
    column = np.where(rows >= step, x[..., step], 0.0).astype(x.dtype)
    largest = np.max(np.abs(column), axis=-1, keepdims=True)
    column = column / np.where(largest == 0, 1.0, largest).astype(x.dtype)
    below, own = np.where(rows > step, column, 0.0).astype(x.dtype), column[..., step : step + 1]
    end = -np.copysign(np.sqrt(np.sum(column * column, axis=-1, keepdims=True)), own)
    v = np.where(rows == step, own - end, below)
    length = np.sum(v * v, axis=-1, keepdims=True)
    some = np.any(below != 0, axis=-1, keepdims=True)
    scale = np.where(some, 2 / np.where(some, length, 1.0), 0.0).astype(x.dtype)
    return v, scale[..., None]
