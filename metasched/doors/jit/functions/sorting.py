"""Elements in order, places among them, and how many there are of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metasched.doors.jit.functions.movement import axes_of, axis_of
from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand, common_numpy_type
from metasched.doors.node_calls import require_known
from metasched.doors.ordered import search, sort_along, sum_by_place
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported


def _row(trace: ArrayTrace, a: Any, axis: int | None) -> tuple[GraphValue, int]:
    """An array and its axis; all elements as one row where it is None."""
    x = trace.value(a)
    if axis is None or not x.rank:
        return trace.nodes.view(x, (x.type.size,)), 0
    return x, axis_of(axis, x.rank)


@traces("sort")
def sort(
    trace: ArrayTrace, a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: Any = None
) -> Any:
    return sort_along(trace.nodes, *_row(trace, a, axis))[0]


@traces("argsort")
def argsort(
    trace: ArrayTrace, a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: Any = None
) -> Any:
    """Equal elements in their order, whatever `kind` is."""
    return sort_along(trace.nodes, *_row(trace, a, axis))[1]


@traces("partition")
def partition(trace: ArrayTrace, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None) -> Any:
    """All elements in order, which is one of the results that NumPy may give."""
    return sort_along(trace.nodes, *_row(trace, a, axis))[0]


@traces("argpartition")
def argpartition(
    trace: ArrayTrace, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None
) -> Any:
    return sort_along(trace.nodes, *_row(trace, a, axis))[1]


@traces("lexsort")
def lexsort(trace: ArrayTrace, keys: Any, axis: int = -1) -> Any:
    """The places of elements in the order of the last key, and where that is equal, of the one before."""
    rows = list(keys)
    found = np.argsort(rows[0], axis=axis)
    for row in rows[1:]:
        order = np.argsort(np.take_along_axis(row, found, axis=axis), axis=axis)
        found = np.take_along_axis(found, order, axis=axis)
    return found


@traces("searchsorted")
def searchsorted(trace: ArrayTrace, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    ordered = a if sorter is None else np.take(a, sorter)
    wanted = language_type(np.result_type(*(trace.value(x).type.dtype.numpy for x in (ordered, v))))
    wanted = DType.U8 if wanted.is_bool else wanted  # bools have no order in the language
    values = trace.value(v, wanted)
    if side not in ("left", "right"):
        raise Unsupported(f"side={side!r} is neither 'left' nor 'right'")
    rows = trace.value(ordered, wanted)
    if rows.rank != 1:
        raise Unsupported(f"it searches arrays of one dimension, and this is {rows.type}")
    return search(trace.nodes, rows, values, right=side == "right")


@traces("digitize")
def digitize(trace: ArrayTrace, x: Any, bins: Any, right: bool = False) -> Any:
    edges = require_known(trace.value(bins).constant, "whether its bins increase or decrease")
    falls, rises = edges[1:] < edges[:-1], edges[1:] > edges[:-1]
    if falls.any() and rises.any():
        raise Unsupported("its bins neither increase nor decrease")
    side = "left" if right else "right"
    if falls.any():
        return np.subtract(len(edges), trace.array(searchsorted(trace, edges[::-1], x, side)))
    return searchsorted(trace, edges, x, side)


@traces("isin")
def isin(
    trace: ArrayTrace,
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    found = np.any(np.equal(np.expand_dims(element, -1), np.ravel(test_elements)), axis=-1)
    return np.logical_not(found) if invert else found


@traces("bincount")
def bincount(trace: ArrayTrace, x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of `minlength` numbers occurs; those from there on are not counted."""
    if not minlength:
        raise Unsupported(
            "np.bincount has as many elements as the data say; with `minlength` it counts numbers below that"
        )
    places = trace.value(x)
    if not places.type.dtype.is_integer or places.rank != 1:
        raise Unsupported(f"np.bincount counts integers of one dimension, and these are {places.type}")
    each = trace.value(np.ones(1, np.int64)) if weights is None else trace.value(weights, DType.F64)
    return sum_by_place(trace.nodes, places, each, minlength)


@traces("histogram_bin_edges")
def histogram_bin_edges(trace: ArrayTrace, a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:  # noqa: A002
    if isinstance(bins, str):
        raise Unsupported(f"the number of bins by {bins!r} depends on data")
    if np.ndim(bins) == 1:
        return bins if isinstance(bins, TracedOperand) else np.asarray(bins)
    kind = trace.value(a).type.dtype.numpy
    if range is not None:
        return np.histogram_bin_edges(np.zeros(0, kind), bins, range)
    low, high = (
        f(a).astype(np.result_type(kind, 1.0) if np.dtype(kind).kind != "f" else kind) for f in (np.min, np.max)
    )
    same = np.equal(low, high)
    low, high = np.where(same, np.subtract(low, 0.5), low), np.where(same, np.add(high, 0.5), high)
    return np.linspace(low, high, int(bins) + 1)


@traces("histogram")
def histogram(
    trace: ArrayTrace,
    a: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 -- NumPy's name
    density: bool | None = None,
    weights: Any = None,
) -> Any:
    edges = histogram_bin_edges(trace, a, bins, range)
    size = np.shape(edges)[0] - 1
    x = np.ravel(a)
    wanted = np.result_type(x.dtype, edges.dtype)
    x, sides = x.astype(wanted), edges.astype(wanted)
    place = np.subtract(np.searchsorted(sides, x, side="right"), 1)
    inside = np.logical_and(np.greater_equal(x, sides[0]), np.less_equal(x, sides[-1]))
    place = np.where(inside, np.minimum(place, size - 1), size)
    each = trace.value(np.ones(1, np.int64)) if weights is None else trace.value(np.ravel(weights), DType.F64)
    found = sum_by_place(trace.nodes, trace.value(place), each, size)
    if weights is not None:
        found = trace.nodes.cast(found, trace.value(weights).type.dtype)
    if not density:
        return found, edges
    amounts = trace.array(found)
    return np.divide(np.divide(amounts, np.diff(edges)), np.sum(amounts)), edges


@traces("choose")
def choose(trace: ArrayTrace, a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    values = list(choices)
    if mode == "clip":
        a = np.clip(a, 0, len(values) - 1)
    elif mode == "wrap":
        a = np.remainder(a, len(values))
    nothing = np.zeros((), common_numpy_type(values))
    return np.select([np.equal(a, n) for n in np.arange(len(values))], values, nothing)


def rows_of(trace: ArrayTrace, a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """An array with the axes of a statistic together as its last dimension, and the shape with these as one."""
    x = trace.value(a)
    axes = axes_of(axis, x.rank)
    others = [n for n in range(x.rank) if n not in axes]
    moved = np.transpose(a, [*others, *axes])
    rows = np.reshape(moved, (*(x.shape[n] for n in others), math.prod(x.shape[n] for n in axes)))
    return rows, tuple(1 if n in axes else extent for n, extent in enumerate(x.shape))
