"""Reductions along axes, and positions of extrema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from metasched.doors.jit.promotion import language_type, type_given_by
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported

Axis: TypeAlias = int | Sequence[int] | None


def _reduced(trace: ArrayTrace, op: str, x: GraphValue, axis: Axis, keepdims: bool) -> GraphValue:
    given = None if axis is None else [axis] if isinstance(axis, int | np.integer) else list(axis)
    if x.rank == 0 and given in ([0], [-1]):
        given = None
    attributes = {"keepdims": int(keepdims)}
    if given == [] or (given is None and x.rank == 0):
        return trace.nodes.call(op, x, noop_with_empty_axes=1, **attributes)
    return trace.nodes.call(op, x, axes=given, **attributes)


def _typed(trace: ArrayTrace, function: Any, a: Any, dtype: Any) -> GraphValue:
    """The operand in the type that NumPy's function sums it in."""
    x = trace.value(a)
    return trace.nodes.cast(x, type_given_by(function, x.type.dtype) if dtype is None else language_type(dtype))


def _count(x: GraphValue, axis: Axis) -> int:
    if axis is None:
        return x.type.size
    axes = (axis,) if isinstance(axis, int | np.integer) else axis
    return math.prod(x.shape[n] for n in axes) if x.rank else 1


@traces("sum")
def total(
    trace: ArrayTrace, a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    return _reduced(trace, "ReduceSum", _typed(trace, np.sum, a, dtype), axis, keepdims)


@traces("prod")
def product(
    trace: ArrayTrace, a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    return _reduced(trace, "ReduceProd", _typed(trace, np.prod, a, dtype), axis, keepdims)


@traces("mean")
def mean(
    trace: ArrayTrace, a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    x = _typed(trace, np.mean, a, dtype)
    if x.type.dtype.is_float:
        return _reduced(trace, "ReduceMean", x, axis, keepdims)
    raise Unsupported(f"np.mean in {x.type.dtype} has no form in the language")


@traces("max", "amax")
def largest(trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    return _extremum(trace, "ReduceMax", a, axis, keepdims)


@traces("min", "amin")
def smallest(trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    return _extremum(trace, "ReduceMin", a, axis, keepdims)


def _extremum(trace: ArrayTrace, op: str, a: Any, axis: Axis, keepdims: bool) -> GraphValue:
    x = trace.value(a)
    if not _count(x, axis):
        raise Unsupported(f"{x.type} has no elements to compare")
    return _reduced(trace, op, x, axis, keepdims)


@traces("ptp")
def peak_to_peak(trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    return np.subtract(np.max(a, axis=axis, keepdims=keepdims), np.min(a, axis=axis, keepdims=keepdims))


@traces("all")
def all_of(trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    return _reduced(trace, "ReduceMin", trace.value(a, DType.BOOL), axis, keepdims)


@traces("any")
def any_of(trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    return _reduced(trace, "ReduceMax", trace.value(a, DType.BOOL), axis, keepdims)


@traces("count_nonzero")
def count_nonzero(trace: ArrayTrace, a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    x = trace.nodes.cast(trace.value(a, DType.BOOL), DType.I64)
    return _reduced(trace, "ReduceSum", x, axis, keepdims)


@traces("var")
def variance(
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    x = trace.value(a)
    centre = np.mean(a, axis=axis, dtype=dtype, keepdims=True) if mean is None else mean
    off = np.subtract(a, centre)
    left = max(_count(x, axis) - (ddof if correction is None else correction), 0)
    found = np.sum(np.multiply(off, off), axis=axis, keepdims=keepdims)
    return np.true_divide(found, found.dtype.type(left))


@traces("std")
def deviation(
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    return np.sqrt(variance(trace, a, axis, dtype, None, ddof, keepdims, mean=mean, correction=correction))


@traces("argmax")
def position_of_largest(
    trace: ArrayTrace, a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    return _position(trace, "ArgMax", a, axis, keepdims)


@traces("argmin")
def position_of_smallest(
    trace: ArrayTrace, a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    return _position(trace, "ArgMin", a, axis, keepdims)


def _position(trace: ArrayTrace, op: str, a: Any, axis: int | None, keepdims: bool) -> GraphValue:
    x = trace.value(a)
    if x.type.dtype.is_bool:
        x = trace.nodes.cast(x, DType.U8)
    if axis is None:
        flat = trace.nodes.call(op, trace.nodes.view(x, (x.type.size,)), axis=0, keepdims=0)
        return trace.nodes.view(flat, (1,) * x.rank if keepdims else ())
    return trace.nodes.call(op, x, axis=axis, keepdims=int(keepdims))


@traces("cumsum")
def cumulative_sum(trace: ArrayTrace, a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    return _running(trace, "CumSum", _typed(trace, np.cumsum, a, dtype), axis)


@traces("cumprod")
def cumulative_product(trace: ArrayTrace, a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    return _running(trace, "CumProd", _typed(trace, np.cumprod, a, dtype), axis)


def _running(trace: ArrayTrace, op: str, x: GraphValue, axis: int | None) -> GraphValue:
    if axis is None:
        x, axis = trace.nodes.view(x, (x.type.size,)), 0
    return trace.nodes.call(op, x, trace.nodes.integers("axis", [axis]))


@traces("linalg.norm")
def norm(trace: ArrayTrace, x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Of vectors, and the Frobenius norm of matrices; those of singular values have no form here."""
    value = trace.value(x)
    x = np.add(x, 0.0) if not value.type.dtype.is_float else x
    axes = 1 if isinstance(axis, int | np.integer) else value.rank if axis is None else len(axis)
    if ord is None or (ord == "fro" and axes == 2) or (ord == 2 and axes == 1):
        return np.sqrt(np.sum(np.multiply(x, x), axis=axis, keepdims=keepdims))
    if axes != 1 or isinstance(ord, str):
        raise Unsupported(f"np.linalg.norm of matrices by ord={ord!r} has no form in the language")
    size = np.abs(x)
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(np.not_equal(x, 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    powers = size if ord == 1 else np.power(size, ord)
    found = np.sum(powers, axis=axis, keepdims=keepdims)
    return found if ord == 1 else np.power(found, 1 / ord)
