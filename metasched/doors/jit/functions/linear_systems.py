"""Systems of a few linear equations, by elimination that is written step by step: each takes some programs.

What NumPy calls singular and raises an error for gives infinities and NaN here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.graph.errors import Unsupported

# Equations up to here: a step of each more is compiled.
_MOST_EQUATIONS = 16


def _square(trace: ArrayTrace, a: Any) -> Any:
    """Matrices in floats. Raises Unsupported for what is not square, or large."""
    x = trace.array(trace.value(a))
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise Unsupported(f"matrices are square, and these are of {x.shape}")
    if x.shape[-1] > _MOST_EQUATIONS:
        raise Unsupported(
            f"elimination of {x.shape[-1]} equations is as many steps after one another, "
            f"and up to {_MOST_EQUATIONS} are traced: "
            "compute it outside of the function, and give it the result"
        )
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _gauss_jordan(matrix: Any, equations: int) -> tuple[Any, list[Any]]:
    """The columns behind a square matrix, solved for (Gauss and Jordan), and the pivots with the signs of the swaps.

    The pivot of each step is the largest element below, as in LAPACK's `getrf`.
    """
    rows, pivots = np.arange(equations), []
    for step in range(equations):
        sizes = np.where(rows >= step, np.abs(matrix[..., step]), -1.0)
        place = np.argmax(sizes, axis=-1, keepdims=True)
        pivot = np.take_along_axis(matrix, place[..., None], axis=-2)
        swapped = np.take_along_axis(matrix, np.where(rows == place, step, rows)[..., None], axis=-2)
        own = pivot[..., step : step + 1]
        pivots.append(np.where(place == step, 1.0, -1.0).astype(matrix.dtype) * own[..., 0])
        rest = swapped - swapped[..., step : step + 1] / own * pivot
        matrix = np.where((rows == step)[:, None], pivot / own, rest)
    return matrix[..., equations:], pivots


@traces("linalg.solve")
def solve(trace: ArrayTrace, a: Any, b: Any) -> Any:
    x, right = _square(trace, a), trace.array(trace.value(b))
    kind = np.result_type(x.dtype, right.dtype)
    columns = right[:, None] if right.ndim == 1 else right
    batch = np.broadcast_shapes(x.shape[:-2], columns.shape[:-2])
    parts = [np.broadcast_to(part, (*batch, *part.shape[-2:])).astype(kind) for part in (x, columns)]
    found, _ = _gauss_jordan(np.concatenate(parts, axis=-1), x.shape[-1])
    return found[..., 0] if right.ndim == 1 else found


@traces("linalg.inv")
def inverse(trace: ArrayTrace, a: Any) -> Any:
    x = _square(trace, a)
    return solve(trace, x, np.eye(x.shape[-1], dtype=x.dtype))


@traces("linalg.det")
def determinant(trace: ArrayTrace, a: Any) -> Any:
    x = _square(trace, a)
    _, pivots = _gauss_jordan(x, x.shape[-1])
    found = pivots[0]
    for pivot in pivots[1:]:
        found = found * pivot
    return found[..., 0]


@traces("linalg.cholesky")
def cholesky(trace: ArrayTrace, a: Any, /, *, upper: bool = False) -> Any:
    x = _square(trace, a)
    rows, columns = np.arange(x.shape[-1]), []
    for step in range(x.shape[-1]):
        column = x[..., step] / np.sqrt(x[..., step : step + 1, step])
        column = np.where(rows >= step, column, 0.0).astype(x.dtype)
        columns.append(column)
        x = x - column[..., :, None] * column[..., None, :]
    return np.stack(columns, axis=-2 if upper else -1)
