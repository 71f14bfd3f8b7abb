"""Systems of a few linear equations, and factors of small matrices: see `doors.jit.functions.linear_systems`.

What PyTorch raises an error for is told by `info`, as LAPACK has it, which an operator of PyTorch's reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from metasched.doors.jit.functions.linear_systems import cholesky_factor, gauss_jordan, require_few_steps, solve_columns
from metasched.doors.pytorch.numpy_calls import trace_numpy
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported

Results = tuple[GraphValue | None, ...]


def _first_failure(failed: Sequence[Any]) -> Any:
    """The number of the first step that failed, from one on; zero where none did."""
    steps = np.concatenate(failed, axis=-1)
    return np.where(np.any(steps, axis=-1), np.argmax(steps, axis=-1) + 1, 0).astype(np.int32)


def _require_told(check_errors: bool) -> None:
    if check_errors:
        raise Unsupported("with check_errors=True it raises errors, which networks do not")


def _transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _solve(a: Any, b: Any) -> tuple[Any, Any]:
    found, pivots = solve_columns(a, b)
    if found.ndim > a.ndim:  # one matrix for many columns, of which PyTorch tells once
        _, pivots = gauss_jordan(a, a.shape[-1])
    return found, _first_failure([pivot == 0 for pivot in pivots])


@aten("linalg_inv_ex")
def inverse(site: AtenSite, a: GraphValue, *, check_errors: bool = False) -> Results:
    _require_told(check_errors)
    return trace_numpy(site.nodes, lambda x: _solve(x, np.eye(x.shape[-1], dtype=x.dtype)), a)


@aten("_linalg_solve_ex")
def solve(site: AtenSite, a: GraphValue, b: GraphValue, *, left: bool = True, check_errors: bool = False) -> Results:
    """`b` is one column where it has a dimension less."""
    site.require_unused(1, 2)
    _require_told(check_errors)
    is_column = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])

    def run(x: Any, right: Any) -> tuple[Any, Any]:
        if is_column:
            found, info = _solve(x, right[..., None])
            return found[..., 0], info
        if left:
            return _solve(x, right)
        found, info = _solve(_transposed(x), _transposed(right))
        return _transposed(found), info

    found, info = trace_numpy(site.nodes, run, a, b)
    return found, None, None, info


@aten("linalg_solve_triangular")
def solve_triangular(
    site: AtenSite, a: GraphValue, b: GraphValue, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> GraphValue:
    def run(x: Any, right: Any) -> tuple[Any]:
        if left:
            return (_substitute(x, right, upper=upper, unit=unitriangular),)
        return (_transposed(_substitute(_transposed(x), _transposed(right), upper=not upper, unit=unitriangular)),)

    return trace_numpy(site.nodes, run, a, b)[0]


def _substitute(x: Any, right: Any, *, upper: bool, unit: bool) -> Any:
    """Row by row: each that is found is taken from those after it."""
    count = require_few_steps(x.shape[-1])
    rows = np.arange(count)
    batch = np.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    for step in reversed(range(count)) if upper else range(count):
        found = left[..., step : step + 1, :]
        found = found if unit else found / x[..., step : step + 1, step : step + 1]
        after = (rows < step if upper else rows > step)[:, None]
        others = left - x[..., step : step + 1] * found
        left = np.where(rows[:, None] == step, found, np.where(after, others, left))
    return left


@aten("linalg_cholesky_ex")
def cholesky(site: AtenSite, a: GraphValue, *, upper: bool = False, check_errors: bool = False) -> Results:
    _require_told(check_errors)

    def run(x: Any) -> tuple[Any, Any]:
        found, pivots = cholesky_factor(_transposed(x) if upper else x)
        info = _first_failure([np.logical_not(pivot > 0) for pivot in pivots])
        return _transposed(found) if upper else found, info

    return trace_numpy(site.nodes, run, a)


@aten("cholesky_solve")
def solve_by_cholesky(site: AtenSite, b: GraphValue, factor: GraphValue, upper: bool = False) -> GraphValue:
    return trace_numpy(site.nodes, lambda x, right: (_solve_by_factor(x, right, upper=upper),), factor, b)[0]


@aten("cholesky_inverse")
def inverse_by_cholesky(site: AtenSite, factor: GraphValue, upper: bool = False) -> GraphValue:
    def run(x: Any) -> tuple[Any]:
        return (_solve_by_factor(x, np.eye(x.shape[-1], dtype=x.dtype), upper=upper),)

    return trace_numpy(site.nodes, run, factor)[0]


def _solve_by_factor(factor: Any, right: Any, *, upper: bool) -> Any:
    lower = _transposed(factor) if upper else factor
    return _substitute(_transposed(lower), _substitute(lower, right, upper=False, unit=False), upper=True, unit=False)


@aten("linalg_qr")
def orthogonal_factors(site: AtenSite, a: GraphValue, mode: Literal["reduced", "complete", "r"] = "reduced") -> Results:
    """With `mode="r"`, `Q` has no elements, and no form."""
    if mode != "r":
        return trace_numpy(site.nodes, lambda x: np.linalg.qr(x, mode), a)
    site.require_unused(0)
    return None, *trace_numpy(site.nodes, lambda x: (np.linalg.qr(x, mode),), a)


@aten("_linalg_det")
def determinant(site: AtenSite, a: GraphValue) -> Results:
    site.require_unused(1, 2)
    return site.call("Det", a), None, None


@aten("_linalg_slogdet")
def sign_and_log_of_determinant(site: AtenSite, a: GraphValue) -> Results:
    site.require_unused(2, 3)
    return (*trace_numpy(site.nodes, np.linalg.slogdet, a), None, None)
