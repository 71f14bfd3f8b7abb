"""Reductions along axes, and positions of extrema."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from metasched.doors.jit.functions.sorting import rows_of
from metasched.doors.jit.promotion import language_type, limit_of, type_given_by
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis
from metasched.graph.text import broadcast

Axis: TypeAlias = int | Sequence[int] | None


def _reduce_axes(trace: ArrayTrace, op: str, x: GraphValue, axis: Axis, keepdims: bool) -> GraphValue:
    given = None if axis is None else [axis] if isinstance(axis, int | np.integer) else list(axis)
    if x.rank == 0 and given in ([0], [-1]):
        given = None
    attributes = {"keepdims": int(keepdims)}
    if given == [] or (given is None and x.rank == 0):
        return trace.nodes.call(op, x, noop_with_empty_axes=1, **attributes)
    return trace.nodes.call(op, x, axes=given, **attributes)


def _fill_neutral(trace: ArrayTrace, x: GraphValue, where: Any, neutral: float) -> GraphValue:
    """The operand with what changes no result in place of the elements that do not take part."""
    if where is True:
        return x
    holds = trace.value(where, DType.BOOL)
    if broadcast(x.shape, holds.shape) != x.shape:
        raise Unsupported(f"`where` is {holds.type}, which does not broadcast to {x.type}")
    return trace.nodes.select(holds, x, trace.nodes.constant("neutral", np.array(neutral, x.type.dtype.numpy)))


def _combine_initial(trace: ArrayTrace, made: GraphValue, combine: Any, initial: Any) -> Any:
    """A result with what a reduction begins with, in the result's type."""
    found = trace.array(made)
    return found if initial is None else combine(found, trace.array(trace.value(initial, made.type.dtype)))


def _cast_to_sum_type(trace: ArrayTrace, function: Any, a: Any, dtype: Any) -> GraphValue:
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
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    x = _fill_neutral(trace, _cast_to_sum_type(trace, np.sum, a, dtype), where, 0)
    return _combine_initial(trace, _reduce_axes(trace, "ReduceSum", x, axis, keepdims), np.add, initial)


@traces("prod")
def product(
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    x = _fill_neutral(trace, _cast_to_sum_type(trace, np.prod, a, dtype), where, 1)
    return _combine_initial(trace, _reduce_axes(trace, "ReduceProd", x, axis, keepdims), np.multiply, initial)


@traces("mean")
def mean(
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    x = _cast_to_sum_type(trace, np.mean, a, dtype)
    if not x.type.dtype.is_float:
        raise Unsupported(f"np.mean in {x.type.dtype} has no form in the language")
    if where is True:
        return _reduce_axes(trace, "ReduceMean", x, axis, keepdims)
    found = trace.array(_reduce_axes(trace, "ReduceSum", _fill_neutral(trace, x, where, 0), axis, keepdims))
    return np.true_divide(found, _count_elements(trace, x, where, axis, keepdims).astype(found.dtype))


def _count_elements(trace: ArrayTrace, x: GraphValue, where: Any, axis: Axis, keepdims: bool) -> Any:
    """How many elements take part."""
    holds = np.broadcast_to(trace.array(trace.value(where, DType.BOOL)), x.shape)
    return np.count_nonzero(holds, axis=axis, keepdims=keepdims)


@traces("max", "amax")
def largest(
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    x = trace.value(a)
    made = _extremum(trace, "ReduceMax", x, axis, keepdims, where=where, initial=initial)
    return _combine_initial(trace, made, np.maximum, initial)


@traces("min", "amin")
def smallest(
    trace: ArrayTrace,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    x = trace.value(a)
    made = _extremum(trace, "ReduceMin", x, axis, keepdims, where=where, initial=initial)
    return _combine_initial(trace, made, np.minimum, initial)


def _extremum(
    trace: ArrayTrace, op: str, x: GraphValue, axis: Axis, keepdims: bool, *, where: Any, initial: Any
) -> GraphValue:
    if initial is None and not _count(x, axis):
        raise Unsupported(f"{x.type} has no elements to compare")
    if initial is None and where is not True:
        raise Unsupported("a reduction of the largest or the smallest with `where` needs an `initial` value")
    return _reduce_axes(
        trace, op, _fill_neutral(trace, x, where, limit_of(x.type.dtype, largest=op == "ReduceMin")), axis, keepdims
    )


@traces("ptp")
def peak_to_peak(trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    return np.subtract(np.max(a, axis=axis, keepdims=keepdims), np.min(a, axis=axis, keepdims=keepdims))


@traces("all")
def all_of(
    trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    return _reduce_axes(
        trace, "ReduceMin", _fill_neutral(trace, trace.value(a, DType.BOOL), where, True), axis, keepdims
    )


@traces("any")
def any_of(
    trace: ArrayTrace, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    return _reduce_axes(
        trace, "ReduceMax", _fill_neutral(trace, trace.value(a, DType.BOOL), where, False), axis, keepdims
    )


@traces("count_nonzero")
def count_nonzero(trace: ArrayTrace, a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    x = trace.nodes.cast(trace.value(a, DType.BOOL), DType.I64)
    return _reduce_axes(trace, "ReduceSum", x, axis, keepdims)


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
    where: Any = True,
) -> Any:
    x, lost = trace.value(a), ddof if correction is None else correction
    centre = np.mean(a, axis=axis, dtype=dtype, keepdims=True, where=where) if mean is None else mean
    off = np.subtract(a, centre)
    found = np.sum(np.multiply(off, off), axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    if where is True:
        return np.true_divide(found, found.dtype.type(max(_count(x, axis) - lost, 0)))
    left = np.maximum(_count_elements(trace, x, where, axis, keepdims) - lost, 0)
    return np.true_divide(found, left.astype(found.dtype))


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
    where: Any = True,
) -> Any:
    found = variance(trace, a, axis, dtype, None, ddof, keepdims, mean=mean, correction=correction, where=where)
    return np.sqrt(found)


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
    return _scan_axis(trace, "sum", _cast_to_sum_type(trace, np.cumsum, a, dtype), axis)


@traces("cumprod")
def cumulative_product(trace: ArrayTrace, a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    return _scan_axis(trace, "prod", _cast_to_sum_type(trace, np.cumprod, a, dtype), axis)


@traces("cumulative_sum")
def cumulative_sum_of_rows(
    trace: ArrayTrace,
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    include_initial: bool = False,
) -> Any:
    return _run_along_rows(np.cumsum, 0, x, axis, dtype, include_initial)


@traces("cumulative_prod")
def cumulative_product_of_rows(
    trace: ArrayTrace,
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    include_initial: bool = False,
) -> Any:
    return _run_along_rows(np.cumprod, 1, x, axis, dtype, include_initial)


def _run_along_rows(
    run: Callable[..., Any], initial: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    if axis is None and np.ndim(x) != 1:
        raise Unsupported("of several dimensions `axis` says along which")
    made = run(x, axis=axis or 0, dtype=dtype)
    if not include_initial:
        return made
    place = (axis or 0) % made.ndim
    first = np.full_like(made, initial, shape=[1 if n == place else size for n, size in enumerate(made.shape)])
    return np.concatenate([first, made], axis=place)


def _scan_axis(trace: ArrayTrace, reducer: str, x: GraphValue, axis: int | None) -> GraphValue:
    if axis is None or not x.rank:
        x, axis = trace.nodes.view(x, (x.type.size,)), 0
    site = trace.nodes.site("Scan")
    return scan_axis(site, x, Scan(reducer, site.axis(axis, x.rank)))


@traces("linalg.norm")
def norm(trace: ArrayTrace, x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Norms of vectors, and the Frobenius norm of matrices; those of singular values have no form here."""
    value = trace.value(x)
    x = np.add(x, 0.0) if not value.type.dtype.is_float else x
    axes = 1 if isinstance(axis, int | np.integer) else value.rank if axis is None else len(axis)
    if ord is None or (ord == "fro" and axes == 2) or (ord == 2 and axes == 1):
        return np.sqrt(np.sum(np.multiply(x, x), axis=axis, keepdims=keepdims))
    if axes == 2 and ord in (1, -1, np.inf, -np.inf):
        return _largest_sum(x, ord, axis, keepdims)
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


def _largest_sum(x: Any, order: float, axis: Axis, keepdims: bool) -> Any:
    """The largest or the smallest sum of a row or a column of sizes."""
    rows, columns = (0, 1) if axis is None or isinstance(axis, int | np.integer) else tuple(n % x.ndim for n in axis)
    across, along = (rows, columns) if abs(order) == 1 else (columns, rows)
    sums = np.sum(np.abs(x), axis=across, keepdims=True)
    found = (np.max if order > 0 else np.min)(sums, axis=along, keepdims=True)
    return found if keepdims else np.squeeze(found, (rows, columns))


@traces("linalg.vector_norm")
def vector_norm(trace: ArrayTrace, x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    rows, kept = rows_of(trace, x, axis)
    found = norm(trace, rows, ord, -1)
    return np.reshape(found, kept) if keepdims else found


@traces("linalg.matrix_norm")
def matrix_norm(trace: ArrayTrace, x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # noqa: A002
    return norm(trace, x, ord, (-2, -1), keepdims)
