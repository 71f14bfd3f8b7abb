"""Elements chosen by conditions and by indices; bounds, rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.functions.movement import axis_of
from metasched.doors.jit.promotion import language_type, limit_of
from metasched.doors.jit.registry import refuses, traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand, common_numpy_type
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported

_SIZE_BY_DATA = "the size of its result depends on data"


@traces("where")
def where(trace: ArrayTrace, condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None or y is None:
        raise Unsupported(f"np.where of a condition alone: {_SIZE_BY_DATA}")
    wanted = language_type(common_numpy_type((x, y)))
    return trace.nodes.select(trace.value(condition, DType.BOOL), trace.value(x, wanted), trace.value(y, wanted))


@traces("select")
def select(trace: ArrayTrace, condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    found = default
    wanted = common_numpy_type([*choicelist, default])
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = np.where(condition, choice, found)
    return trace.value(found, language_type(wanted))


@traces("clip")
def clip(
    trace: ArrayTrace,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: None = None,
    *,
    min: Any = None,  # noqa: A002 -- NumPy's names
    max: Any = None,  # noqa: A002
) -> Any:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    x = trace.value(a)
    if x.type.dtype.is_integer:  # a number beyond the type bounds nothing
        low = None if type(low) is int and low <= limit_of(x.type.dtype, largest=False) else low
        high = None if type(high) is int and high >= limit_of(x.type.dtype, largest=True) else high
    bounds = [bound for bound in (low, high) if bound is not None]
    found = trace.array(trace.value(a, language_type(common_numpy_type([a, *bounds]))))
    found = found if low is None else np.maximum(found, low)
    found = found if high is None else np.minimum(found, high)
    return trace.value(found)


@traces("round", "around")
def rounded(trace: ArrayTrace, a: Any, decimals: int = 0, out: None = None) -> Any:
    x = trace.value(a)
    if x.type.dtype.is_integer and decimals >= 0:
        return x
    if decimals == 0:
        return np.rint(a)
    if x.type.dtype.is_bool:
        raise Unsupported(f"np.round of {x.type.dtype} to {decimals} decimals has no form here")
    scale = np.dtype(x.type.dtype.numpy if x.type.dtype.is_float else np.float64).type(10 ** abs(decimals))
    if decimals > 0:
        return np.divide(np.rint(np.multiply(a, scale)), scale)
    return trace.value(np.multiply(np.rint(np.divide(a, scale)), scale), x.type.dtype)


@traces("nan_to_num")
def nan_to_num(
    trace: ArrayTrace,
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    value = trace.value(x)
    if not value.type.dtype.is_float:
        return value if copy else x
    limits = np.finfo(value.type.dtype.numpy)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    finite = np.where(np.equal(x, np.inf), high, np.where(np.equal(x, -np.inf), low, x))
    found = np.where(np.isnan(x), nan, finite)
    if copy:
        return trace.value(found, value.type.dtype)
    x[...] = found
    return x


@traces("isneginf")
def isneginf(trace: ArrayTrace, x: Any, out: None = None) -> Any:
    return np.equal(x, -np.inf)


@traces("isposinf")
def isposinf(trace: ArrayTrace, x: Any, out: None = None) -> Any:
    return np.equal(x, np.inf)


@traces("fix")
def fix(trace: ArrayTrace, x: Any, out: None = None) -> Any:
    return np.trunc(x)


@traces("iscomplexobj")
def iscomplexobj(trace: ArrayTrace, x: Any) -> Any:
    return False


@traces("isrealobj")
def isrealobj(trace: ArrayTrace, x: Any) -> Any:
    return True


@traces("real")
def real(trace: ArrayTrace, val: Any) -> Any:
    return val.real


@traces("imag")
def imag(trace: ArrayTrace, val: Any) -> Any:
    return val.imag


@traces("angle")
def angle(trace: ArrayTrace, z: Any, deg: bool = False) -> Any:
    found = np.arctan2(0, z)
    return np.multiply(found, 180 / np.pi) if deg else found


@traces("isclose")
def isclose(
    trace: ArrayTrace, a: Any, b: Any, rtol: float = 1.0e-5, atol: float = 1.0e-8, equal_nan: bool = False
) -> Any:
    wanted = _as_float(trace, b)
    near = np.less_equal(np.abs(np.subtract(a, wanted)), np.add(atol, np.multiply(rtol, np.abs(wanted))))
    same = np.logical_or(np.logical_and(near, np.isfinite(wanted)), np.equal(a, wanted))
    return np.logical_or(same, np.logical_and(np.isnan(a), np.isnan(wanted))) if equal_nan else same


def _as_float(trace: ArrayTrace, x: Any) -> Any:
    """An operand as a float: differences of integers wrap, and the smallest has no absolute value."""
    if type(x) in (bool, int, float):
        return float(x)
    return trace.array(trace.value(x, language_type(np.result_type(common_numpy_type([x]), 1.0))))


@traces("allclose")
def allclose(
    trace: ArrayTrace, a: Any, b: Any, rtol: float = 1.0e-5, atol: float = 1.0e-8, equal_nan: bool = False
) -> Any:
    return np.all(isclose(trace, a, b, rtol, atol, equal_nan))


@traces("array_equal")
def array_equal(trace: ArrayTrace, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    if np.shape(a1) != np.shape(a2):
        return np.array(False)
    same = np.equal(a1, a2)
    if equal_nan:
        same = np.logical_or(same, np.logical_and(np.not_equal(a1, a1), np.not_equal(a2, a2)))
    return np.all(same)


@traces("array_equiv")
def array_equiv(trace: ArrayTrace, a1: Any, a2: Any) -> Any:
    """Whether all elements are equal once both are broadcast; no where they cannot be."""
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return np.array(False)
    return np.all(np.equal(a1, a2))


@traces("take")
def take(
    trace: ArrayTrace, a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise"
) -> Any:
    x, index = trace.value(a), trace.value(indices)
    if not index.type.dtype.is_integer:
        raise Unsupported(f"indices are integers, and these are {index.type}")
    if axis is None:
        x, axis = trace.nodes.view(x, (x.type.size,)), 0
    place = axis_of(axis, x.rank)
    if mode != "raise":
        index = _brought_inside(trace, index, x.shape[place], mode)
    return trace.nodes.call("Gather", x, index, axis=place)


def _brought_inside(trace: ArrayTrace, index: GraphValue, extent: int, mode: str) -> GraphValue:
    texts = {"wrap": f"i64({{0}}) % {extent}", "clip": f"min(max(i64({{0}}), 0), {extent - 1})"}
    if mode not in texts:
        raise Unsupported(f"clipmode {mode!r} is none of 'raise', 'wrap' and 'clip'")
    return trace.nodes.expression("Index", texts[mode], [index], [index.type.dtype], DType.I64)


@traces("take_along_axis")
def take_along_axis(trace: ArrayTrace, arr: Any, indices: Any, axis: int | None = -1) -> Any:
    x, index = trace.value(arr), trace.value(indices)
    if axis is None:
        x, axis = trace.nodes.view(x, (x.type.size,)), 0
    if x.rank != index.rank:
        raise Unsupported("`indices` and `arr` must have the same number of dimensions")
    place = axis_of(axis, x.rank)
    shape = [max(n, m) for n, m in zip(x.shape, index.shape, strict=True)]
    x = _expand_to_shape(trace, x, [n if d != place else x.shape[d] for d, n in enumerate(shape)])
    index = _expand_to_shape(trace, index, [n if d != place else index.shape[d] for d, n in enumerate(shape)])
    return trace.nodes.call("GatherElements", x, index, axis=place)


def _expand_to_shape(trace: ArrayTrace, x: GraphValue, shape: Sequence[int]) -> GraphValue:
    return trace.nodes.call("Expand", x, trace.nodes.integers("shape", shape))


@traces("compress")
def compress(trace: ArrayTrace, condition: Any, a: Any, axis: int | None = None, out: None = None) -> Any:
    known = trace.value(condition).constant
    if known is None:
        raise Unsupported(_SIZE_BY_DATA)
    return np.take(a, np.flatnonzero(known), axis)


@refuses("nonzero", "flatnonzero", "argwhere", "unique", "extract")
def sized_by_data(trace: ArrayTrace, *args: Any, **kwargs: Any) -> Any:
    raise Unsupported(f"{_SIZE_BY_DATA}; np.where(condition, x, y) keeps every element")


# --- what is known of an array's type alone ---------------------------------------------------------------------


@traces("shape")
def shape(trace: ArrayTrace, a: Any) -> Any:
    return trace.value(a).shape


@traces("ndim")
def ndim(trace: ArrayTrace, a: Any) -> Any:
    return trace.value(a).rank


@traces("size")
def size(trace: ArrayTrace, a: Any, axis: int | None = None) -> Any:
    x = trace.value(a)
    return x.type.size if axis is None else x.shape[axis]


@traces("result_type")
def result_type(trace: ArrayTrace, *operands: Any) -> Any:
    return common_numpy_type(operands)


# --- places in an array, and among all its elements ---------------------------------------------------------------


@traces("unravel_index")
def unravel_index(trace: ArrayTrace, indices: Any, shape: Any, order: str = "C") -> Any:
    """The places along each axis of elements that are counted through the array."""
    rest, found = _whole_numbers(trace, indices), list[Any]()
    for extent in reversed(_extents(shape, order)):
        found.append(np.remainder(rest, extent))
        rest = np.floor_divide(rest, extent)
    return tuple(found[::-1] if order == "C" else found)


@traces("ravel_multi_index")
def ravel_multi_index(trace: ArrayTrace, multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Which element of all is at a place along each axis."""
    extents = _extents(dims, order)
    places = list(multi_index) if order == "C" else list(multi_index)[::-1]
    modes = [mode] * len(extents) if isinstance(mode, str) else list(mode) if order == "C" else list(mode)[::-1]
    found: Any = 0
    for place, extent, how in zip(places, extents, modes, strict=True):
        found = np.add(np.multiply(found, extent), _place_within(_whole_numbers(trace, place), extent, how))
    return found


@traces("triu_indices_from")
def upper_places(trace: ArrayTrace, arr: Any, k: int = 0) -> Any:
    rows, columns = _matrix_extents(arr)
    return np.triu_indices(rows, k, columns)


@traces("tril_indices_from")
def lower_places(trace: ArrayTrace, arr: Any, k: int = 0) -> Any:
    rows, columns = _matrix_extents(arr)
    return np.tril_indices(rows, k, columns)


@traces("diag_indices_from")
def diagonal_places(trace: ArrayTrace, arr: Any) -> Any:
    shape = np.shape(arr)
    if len(shape) < 2 or len(set(shape)) > 1:
        raise Unsupported(f"it is of arrays with two dimensions or more, all of one extent, and this is of {shape}")
    return np.diag_indices(shape[0], len(shape))


def _matrix_extents(x: Any) -> tuple[int, int]:
    if np.ndim(x) != 2:
        raise Unsupported(f"it is of matrices, and this has {np.ndim(x)} dimensions")
    rows, columns = np.shape(x)
    return rows, columns


@traces("ix_")
def open_mesh(trace: ArrayTrace, *args: Any) -> Any:
    """Places along each axis, in shapes that meet; a mask that is known is the places where it holds."""
    made = []
    for n, given in enumerate(args):
        places: Any = given if isinstance(given, TracedOperand) else np.asarray(given)
        if np.ndim(places) != 1:
            raise Unsupported("places along an axis have one dimension")
        places = np.flatnonzero(places) if places.dtype == bool else places
        made.append(np.reshape(places, [-1 if m == n else 1 for m in range(len(args))]))
    return tuple(made)


def _extents(shape: Any, order: str) -> list[int]:
    """The extents of a shape from the outermost in memory on."""
    if order not in ("C", "F"):
        raise Unsupported(f"elements are in C's order or in Fortran's, and order={order!r} is another")
    extents = [int(extent) for extent in np.atleast_1d(shape)]
    return extents if order == "C" else extents[::-1]


def _whole_numbers(trace: ArrayTrace, places: Any) -> Any:
    value = trace.value(places)
    if not value.type.dtype.is_integer:
        raise Unsupported(f"places are integers, and these are {value.type.dtype}")
    return trace.array(trace.nodes.cast(value, DType.I64))


def _place_within(place: Any, extent: int, how: str) -> Any:
    if how == "wrap":
        return np.remainder(place, extent)
    return np.clip(place, 0, extent - 1) if how == "clip" else place
