"""Elements moved, joined, split and repeated, and the same elements in another shape."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.jit.views import ReadOnlyView, TransposedView, make_array, make_view, reshape_array
from metasched.doors.node_calls import require_known
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import broadcast

Sizes: TypeAlias = int | Sequence[int]
Axes: TypeAlias = int | Sequence[int] | None


def _size_tuple(sizes: Sizes) -> tuple[int, ...]:
    return (int(sizes),) if isinstance(sizes, int | np.integer) else tuple(operator.index(n) for n in sizes)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the beginning. Raises Unsupported for one that there is not."""
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is out of bounds for array of dimension {rank}")
    return axis % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from the beginning: all where none is named."""
    return tuple(range(rank)) if axis is None else tuple(axis_of(n, rank) for n in _size_tuple(axis))


def _axes(axes: Axes, rank: int) -> tuple[int, ...]:
    found = tuple(axis_of(axis, rank) for axis in _size_tuple(axes if axes is not None else ()))
    if len(set(found)) != len(found):
        raise Unsupported(f"an axis of {axes} is named twice")
    return found


@traces("reshape")
def reshape(
    trace: ArrayTrace,
    a: Any,
    shape: Sizes,
    order: str = "C",
    *,
    newshape: Sizes | None = None,
    copy: bool | None = None,
) -> Any:
    x, wanted = trace.value(a), list(_size_tuple(shape if newshape is None else newshape))
    if order not in ("C", "F"):
        raise Unsupported(f"elements are in C's order or in Fortran's, and order={order!r} is another")
    if wanted.count(-1) == 1:
        others = math.prod(n for n in wanted if n != -1)
        if not others or x.type.size % others:
            raise Unsupported(f"cannot reshape array of size {x.type.size} into shape {tuple(wanted)}")
        wanted[wanted.index(-1)] = x.type.size // others
    if min(wanted, default=0) < 0 or math.prod(wanted) != x.type.size:
        raise Unsupported(f"cannot reshape array of size {x.type.size} into shape {tuple(wanted)}")
    if order == "F":
        return np.transpose(np.reshape(np.transpose(a), wanted[::-1]))
    return reshape_array(trace, a, tuple(wanted))


@traces("ravel")
def ravel(trace: ArrayTrace, a: Any, order: str = "C") -> Any:
    """A view of what lies in memory in that order, and else a copy, even where a reshaped one would be a view."""
    flat = reshape(trace, a, (trace.value(a).type.size,), order)
    given = np.transpose(a) if order == "F" else a
    in_order = not isinstance(given, TracedOperand) or given.layout().flags.c_contiguous
    return flat if in_order or isinstance(flat, GraphValue) else trace.value(flat)


@traces("transpose", "permute_dims")
def transpose(trace: ArrayTrace, a: Any, axes: Axes = None) -> Any:
    x = trace.value(a)
    order = tuple(reversed(range(x.rank))) if axes is None else _axes(axes, x.rank)
    if len(order) != x.rank:
        raise Unsupported(f"axes {order} don't match an array of {x.rank} dimensions")
    return make_view(trace, a, TransposedView(order))


@traces("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(trace: ArrayTrace, x: Any) -> Any:
    return swapaxes(trace, x, -1, -2)


@traces("swapaxes")
def swapaxes(trace: ArrayTrace, a: Any, axis1: int, axis2: int) -> Any:
    rank = trace.value(a).rank
    order = list(range(rank))
    first, second = axis_of(axis1, rank), axis_of(axis2, rank)
    order[first], order[second] = second, first
    return transpose(trace, a, order)


@traces("moveaxis")
def moveaxis(trace: ArrayTrace, a: Any, source: Sizes, destination: Sizes) -> Any:
    rank = trace.value(a).rank
    origins, places = _axes(source, rank), _axes(destination, rank)
    if len(origins) != len(places):
        raise Unsupported("`source` and `destination` have different numbers of axes")
    order = [axis for axis in range(rank) if axis not in origins]
    for place, origin in sorted(zip(places, origins, strict=True)):
        order.insert(place, origin)
    return transpose(trace, a, order)


@traces("expand_dims")
def expand_dims(trace: ArrayTrace, a: Any, axis: Sizes) -> Any:
    x = trace.value(a)
    rank = x.rank + len(_size_tuple(axis))
    axes, rest = _axes(axis, rank), iter(x.shape)
    return reshape_array(trace, a, tuple(1 if n in axes else next(rest) for n in range(rank)))


@traces("squeeze")
def squeeze(trace: ArrayTrace, a: Any, axis: Axes = None) -> Any:
    x = trace.value(a)
    axes = [n for n, extent in enumerate(x.shape) if extent == 1] if axis is None else _axes(axis, x.rank)
    if any(x.shape[n] != 1 for n in axes):
        raise Unsupported("cannot select an axis to squeeze out which has size not equal to one")
    return reshape_array(trace, a, tuple(extent for n, extent in enumerate(x.shape) if n not in axes))


@traces("atleast_1d")
def atleast_1d(trace: ArrayTrace, *arys: Any) -> Any:
    return _raise_ranks(trace, arys, 1)


@traces("atleast_2d")
def atleast_2d(trace: ArrayTrace, *arys: Any) -> Any:
    return _raise_ranks(trace, arys, 2)


def _raise_ranks(trace: ArrayTrace, arrays: Sequence[Any], rank: int) -> Any:
    made = tuple(reshape_array(trace, a, (*(1,) * (rank - np.ndim(a)), *np.shape(a))) for a in arrays)
    return made[0] if len(made) == 1 else made


@traces("broadcast_to")
def broadcast_to(trace: ArrayTrace, array: Any, shape: Sizes, subok: bool = False) -> Any:
    x, wanted = trace.value(array), _size_tuple(shape)
    if broadcast(x.shape, wanted) != wanted:
        raise Unsupported(f"{x.type} does not broadcast to {wanted}")

    def expanded(trace: ArrayTrace, whole: GraphValue) -> GraphValue:
        return trace.nodes.call("Expand", whole, trace.nodes.integers("shape", wanted))

    return make_view(trace, array, ReadOnlyView(expanded, lambda whole: np.broadcast_to(whole, wanted)))


@traces("broadcast_arrays")
def broadcast_arrays(trace: ArrayTrace, *args: Any, subok: bool = False) -> Any:
    """The arrays themselves where they have the shape."""
    shape = broadcast(*(trace.value(a).shape for a in args))
    return tuple(a if np.shape(a) == shape else broadcast_to(trace, a, shape) for a in args)


@traces("copy")
def copy(trace: ArrayTrace, a: Any, order: str = "K", subok: bool = False) -> Any:
    return make_array(trace, trace.value(a))


@traces("ascontiguousarray", "asarray", "asanyarray")
def asarray(trace: ArrayTrace, a: Any, dtype: Any = None, order: str = "K", **kwargs: Any) -> Any:
    """The array itself, where it is of the type."""
    x = trace.value(a)
    return a if dtype is None or language_type(dtype) is x.type.dtype else trace.nodes.cast(x, language_type(dtype))


@traces("astype")
def astype(trace: ArrayTrace, x: Any, dtype: Any, /, *, copy: bool = True, device: None = None) -> Any:
    return x.astype(dtype, copy=copy)


# --- joined and split -------------------------------------------------------------------------------------------


def _cast_to_common_type(trace: ArrayTrace, arrays: Sequence[Any], dtype: Any) -> list[GraphValue]:
    """Values in the type that NumPy joins them in."""
    values = [trace.value(a) for a in arrays]
    wanted = np.result_type(*(x.type.dtype.numpy for x in values)) if dtype is None else dtype
    return [trace.nodes.cast(x, language_type(wanted)) for x in values]


def _array_list(arrays: Any) -> list[Any]:
    """The arrays of a list, or of an array's first dimension."""
    return list(arrays)


@traces("concatenate", "concat")
def concatenate(
    trace: ArrayTrace,
    arrays: Any,
    axis: int | None = 0,
    out: None = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    values = _cast_to_common_type(trace, _array_list(arrays), dtype)
    if axis is None:
        values, axis = [trace.nodes.view(x, (x.type.size,)) for x in values], 0
    axis_of(axis, values[0].rank)
    return values[0] if len(values) == 1 else trace.nodes.call("Concat", *values, axis=axis)


@traces("stack")
def stack(
    trace: ArrayTrace, arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    values = _cast_to_common_type(trace, _array_list(arrays), dtype)
    if len({x.shape for x in values}) > 1:
        raise Unsupported("all input arrays must have the same shape")
    place = axis_of(axis, values[0].rank + 1)
    shape = (*values[0].shape[:place], 1, *values[0].shape[place:])
    parts = [trace.nodes.view(x, shape) for x in values]
    return parts[0] if len(parts) == 1 else trace.nodes.call("Concat", *parts, axis=place)


@traces("vstack", "row_stack")
def vstack(trace: ArrayTrace, tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return np.concatenate([np.atleast_2d(a) for a in _array_list(tup)], 0, dtype=dtype)


@traces("hstack")
def hstack(trace: ArrayTrace, tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [np.atleast_1d(a) for a in _array_list(tup)]
    return np.concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@traces("column_stack")
def column_stack(trace: ArrayTrace, tup: Any) -> Any:
    return np.concatenate([np.atleast_2d(a).T if np.ndim(a) < 2 else a for a in _array_list(tup)], 1)


@traces("append")
def append(trace: ArrayTrace, arr: Any, values: Any, axis: int | None = None) -> Any:
    return concatenate(trace, (arr, values), axis)


@traces("array_split")
def array_split(trace: ArrayTrace, ary: Any, indices_or_sections: Sizes, axis: int = 0) -> Any:
    x = trace.value(ary)
    place = axis_of(axis, x.rank)
    extent = x.shape[place]
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count <= 0:
            raise Unsupported("number sections must be larger than 0.")
        ends = [n * (extent // count) + min(n, extent % count) for n in range(count + 1)]
        bounds = list(itertools.pairwise(ends))
    else:
        cuts = [operator.index(n) for n in require_known(np.asarray(indices_or_sections), "where it is split")]
        bounds = list(zip([0, *cuts], [*cuts, extent], strict=True))
    parts = []
    for first, last in bounds:
        taken = [slice(None)] * x.rank
        taken[place] = slice(first, last)
        parts.append(ary[tuple(taken)])
    return parts


@traces("split")
def split(trace: ArrayTrace, ary: Any, indices_or_sections: Sizes, axis: int = 0) -> Any:
    extent = trace.value(ary).shape[axis]
    if isinstance(indices_or_sections, int | np.integer) and extent % indices_or_sections:
        raise Unsupported("array split does not result in an equal division")
    return array_split(trace, ary, indices_or_sections, axis)


@traces("unstack")
def unstack(trace: ArrayTrace, x: Any, /, *, axis: int = 0) -> Any:
    moved = np.moveaxis(x, axis, 0)
    return tuple(moved[n] for n in range(moved.shape[0]))


# --- repeated, turned, moved ------------------------------------------------------------------------------------


@traces("tile")
def tile(trace: ArrayTrace, A: Any, reps: Sizes) -> Any:  # noqa: N803 -- NumPy's name
    x, times = trace.value(A), _size_tuple(reps)
    rank = max(x.rank, len(times))
    whole = trace.nodes.view(x, (*(1,) * (rank - x.rank), *x.shape))
    repeats = (*(1,) * (rank - len(times)), *times)
    return trace.nodes.call("Tile", whole, trace.nodes.integers("repeats", repeats))


@traces("repeat")
def repeat(trace: ArrayTrace, a: Any, repeats: Any, axis: int | None = None) -> Any:
    x = trace.value(a)
    if axis is None or not x.rank:
        x, axis = trace.nodes.view(x, (x.type.size,)), 0
    place = axis_of(axis, x.rank)
    positions = np.repeat(
        np.arange(x.shape[place]), require_known(np.asarray(repeats), "how often elements are repeated")
    )
    return trace.nodes.call("Gather", x, trace.nodes.constant("positions", positions), axis=place)


@traces("flip")
def flip(trace: ArrayTrace, m: Any, axis: Axes = None) -> Any:
    rank = trace.value(m).rank
    axes = range(rank) if axis is None else _axes(axis, rank)
    return m[tuple(slice(None, None, -1) if n in axes else slice(None) for n in range(rank))]


@traces("fliplr")
def fliplr(trace: ArrayTrace, m: Any) -> Any:
    return flip(trace, m, 1)


@traces("flipud")
def flipud(trace: ArrayTrace, m: Any) -> Any:
    return flip(trace, m, 0)


@traces("roll")
def roll(trace: ArrayTrace, a: Any, shift: Sizes, axis: Axes = None) -> Any:
    if axis is None:
        return np.reshape(np.roll(np.ravel(a), shift, 0), np.shape(a))
    shifts, axes = _size_tuple(shift), tuple(axis_of(n, np.ndim(a)) for n in _size_tuple(axis))
    count = max(len(shifts), len(axes))
    for by, place in zip(shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True):
        extent = np.shape(a)[place]
        cut = -by % extent if extent else 0
        if cut:
            first, rest = np.split(a, [cut], axis=place)
            a = np.concatenate([rest, first], axis=place)
    return trace.value(a)


@traces("tril")
def tril(trace: ArrayTrace, m: Any, k: int = 0) -> Any:
    return _take_triangle(trace, m, k, upper=0)


@traces("triu")
def triu(trace: ArrayTrace, m: Any, k: int = 0) -> Any:
    return _take_triangle(trace, m, k, upper=1)


def _take_triangle(trace: ArrayTrace, m: Any, k: int, upper: int) -> GraphValue:
    """A part of a matrix, or of one whose rows are all the same."""
    x = trace.value(np.broadcast_to(m, np.shape(m) * 2) if np.ndim(m) == 1 else m)
    return trace.nodes.call("Trilu", x, trace.nodes.integers("k", [k]), upper=upper)


def _row_along(a: Any, axis: int, end: Any) -> Any:
    """What is put at an end of an array: a number is a row of it."""
    if end is None or np.ndim(end):
        return end
    end = end if isinstance(end, TracedOperand) else np.asarray(end)
    return np.broadcast_to(end, [1 if n == axis else extent for n, extent in enumerate(np.shape(a))])


@traces("diff")
def diff(trace: ArrayTrace, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    place = axis_of(axis, trace.value(a).rank)
    ends = [_row_along(a, place, end) for end in (prepend, append)]
    parts = [part for part in (ends[0], a, ends[1]) if part is not None]
    a = a if len(parts) == 1 or not n else np.concatenate(parts, axis=place)
    before = (slice(None),) * place
    for _ in range(n):
        high, low = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = np.not_equal(high, low) if a.dtype == bool else np.subtract(high, low)
    return trace.value(a)


@traces("diagonal")
def diagonal(trace: ArrayTrace, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A view, which is not written."""

    def elements(own: ArrayTrace, whole: GraphValue) -> GraphValue:
        moved = np.moveaxis(own.array(whole), (axis1, axis2), (-2, -1))
        rows, columns = moved.shape[-2:]
        first = np.arange(max(-offset, 0), min(rows, columns - offset))
        flat = np.reshape(moved, (*moved.shape[:-2], rows * columns))
        return own.value(np.take(flat, first * columns + first + offset, axis=-1))

    return make_view(trace, a, ReadOnlyView(elements, lambda whole: np.diagonal(whole, offset, axis1, axis2)))


@traces("linalg.diagonal")
def diagonal_of_matrices(trace: ArrayTrace, x: Any, /, *, offset: int = 0) -> Any:
    return np.diagonal(x, offset, -2, -1)


@traces("linalg.trace")
def trace_of_matrices(trace: ArrayTrace, x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return np.trace(x, offset, -2, -1, dtype)


@traces("trace")
def trace_of(
    trace: ArrayTrace, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)
