"""Arrays taken apart, put together and written in part, by functions that are written in other ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.functions.movement import axis_of
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.node_calls import require_known
from metasched.graph.errors import Unsupported

# Rows that a function is traced for one by one.
_MOST_ROWS = 64


@traces("rot90")
def rot90(trace: ArrayTrace, m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    first, second = (axis_of(n, np.ndim(m)) for n in axes)
    if k % 4 == 0:
        return m[...]
    if k % 4 == 2:
        return np.flip(m, (first, second))
    return (
        np.swapaxes(np.flip(m, second), first, second) if k % 4 == 1 else np.flip(np.swapaxes(m, first, second), second)
    )


@traces("rollaxis")
def rollaxis(trace: ArrayTrace, a: Any, axis: int, start: int = 0) -> Any:
    rank = np.ndim(a)
    place, goal = axis_of(axis, rank), start + rank if start < 0 else start
    return np.moveaxis(a, place, goal - 1 if place < goal else goal)


@traces("atleast_3d")
def atleast_3d(trace: ArrayTrace, *arys: Any) -> Any:
    made = tuple(_raise_rank_to_three(a) for a in arys)
    return made[0] if len(made) == 1 else made


def _raise_rank_to_three(a: Any) -> Any:
    rank = np.ndim(a)
    shapes: dict[int, Any] = {0: (1, 1, 1), 1: (1, -1, 1), 2: (*np.shape(a), 1)}
    return np.reshape(a, shapes[rank]) if rank < 3 else a


@traces("dstack")
def dstack(trace: ArrayTrace, tup: Any) -> Any:
    return np.concatenate([_raise_rank_to_three(a) for a in tup], 2)


@traces("hsplit")
def hsplit(trace: ArrayTrace, ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, axis=0 if np.ndim(ary) == 1 else 1)


@traces("vsplit")
def vsplit(trace: ArrayTrace, ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, axis=0)


@traces("dsplit")
def dsplit(trace: ArrayTrace, ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, axis=2)


@traces("block")
def block(trace: ArrayTrace, arrays: Any) -> Any:
    depth, rank = _depth(arrays), max(np.ndim(leaf) for leaf in _leaves(arrays))
    return _join_blocks(arrays, depth, max(depth, rank))


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for part in arrays for leaf in _leaves(part)] if isinstance(arrays, list) else [arrays]


def _join_blocks(arrays: Any, depth: int, rank: int) -> Any:
    if not isinstance(arrays, list):
        return np.reshape(arrays, (*(1,) * (rank - np.ndim(arrays)), *np.shape(arrays)))
    return np.concatenate([_join_blocks(part, depth - 1, rank) for part in arrays], axis=-depth)


@traces("delete")
def delete(trace: ArrayTrace, arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without what is at some places, which have to be known."""
    x = np.ravel(arr) if axis is None else arr
    place = axis_of(axis or 0, np.ndim(x))
    kept = np.delete(np.arange(np.shape(x)[place]), obj if isinstance(obj, slice) else _known_elements(trace, obj))
    return np.take(x, kept, axis=place)


def _known_elements(trace: ArrayTrace, obj: Any) -> Any:
    return require_known(trace.value(obj).constant, "where elements are") if isinstance(obj, TracedOperand) else obj


@traces("insert")
def insert(trace: ArrayTrace, arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """An array with values before some places, which have to be known."""
    x = np.ravel(arr) if axis is None else arr
    place = axis_of(axis or 0, np.ndim(x))
    shape = list(np.shape(x))
    count = shape[place]
    before = np.arange(count)[obj] if isinstance(obj, slice) else np.asarray(_known_elements(trace, obj))
    before = np.flatnonzero(before) if before.dtype == bool else before
    given = np.reshape(values, (*(1,) * (np.ndim(x) - np.ndim(values)), *np.shape(values)))
    given = given if before.ndim else np.moveaxis(given, 0, place)
    shape[place] = np.shape(given)[place] if before.size == 1 else before.size
    order = np.insert(np.arange(count), before, count + np.arange(shape[place]))
    given = np.broadcast_to(given, shape).astype(x.dtype)
    if before.size == 1:
        first, rest = np.split(x, [before.item()], axis=place)
        return np.concatenate([first, given, rest], axis=place)
    return np.take(np.concatenate([x, given], axis=place), order, axis=place)


@traces("resize")
def resize(trace: ArrayTrace, a: Any, new_shape: Any) -> Any:
    """The elements again and again."""
    count, size = math.prod(np.atleast_1d(new_shape).tolist()), np.size(a)
    return np.reshape(np.take(np.ravel(a), np.arange(count) % max(size, 1)), new_shape)


# --- written in part --------------------------------------------------------------------------------------------


@traces("put_along_axis")
def put_along_axis(trace: ArrayTrace, arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    """Set the elements at indices along an axis, in place."""
    target, place = (np.reshape(arr, (-1,)), 0) if axis is None else (arr, axis_of(axis, np.ndim(arr)))
    shape = np.shape(indices)
    keys = [
        np.reshape(np.arange(extent), [-1 if n == dim else 1 for n in range(len(shape))])
        for dim, extent in enumerate(np.shape(target))
    ]
    target[tuple(indices if dim == place else key for dim, key in enumerate(keys))] = values


@traces("copyto")
def copyto(trace: ArrayTrace, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Set the elements of `dst`, in place."""
    dst[...] = src if where is True else np.where(where, src, dst)


@traces("place")
def place(trace: ArrayTrace, arr: Any, mask: Any, vals: Any) -> None:
    """Set what a mask picks, in place, to one value: of several each would go to the next element of the mask."""
    if np.size(vals) != 1:
        raise Unsupported("np.place is traced with one value; np.putmask takes one for each element")
    putmask(trace, arr, mask, vals)


@traces("putmask")
def putmask(trace: ArrayTrace, a: Any, mask: Any, values: Any) -> None:
    """Set what a mask picks, in place."""
    if np.size(values) != 1 and np.shape(values) != np.shape(a):
        raise Unsupported("as many values as there are elements, or one, can be traced")
    a[...] = np.where(mask, np.reshape(values, ()) if np.size(values) == 1 else values, a)


@traces("put")
def put(trace: ArrayTrace, a: Any, ind: Any, v: Any) -> None:
    """Set elements by their numbers, in place, to as many values or to one."""
    if np.size(v) not in (1, np.size(ind)):
        raise Unsupported("np.put is traced with as many values as places, or one")
    places = np.reshape(ind, -1)
    np.reshape(a, -1)[places] = np.reshape(v, ()) if np.size(v) == 1 else np.reshape(v, -1)


@traces("piecewise")
def piecewise(trace: ArrayTrace, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    otherwise = funclist[len(conditions)] if len(funclist) > len(conditions) else 0
    found = np.zeros_like(x)
    for holds, function in [(True, otherwise), *zip(conditions, funclist, strict=False)]:
        found = np.where(holds, function(x, *args, **kw) if callable(function) else function, found).astype(x.dtype)
    return found


@traces("apply_along_axis")
def apply_along_axis(trace: ArrayTrace, func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Row by row: each is a part of the graph."""
    moved = np.moveaxis(arr, axis, -1)
    others, extent = moved.shape[:-1], moved.shape[-1]
    rows = np.reshape(moved, (-1, extent))
    if rows.shape[0] > _MOST_ROWS:
        raise Unsupported(
            f"np.apply_along_axis would trace its function {rows.shape[0]} times; those of whole arrays take an axis"
        )
    made = np.stack([func1d(row, *args, **kwargs) for row in rows])
    whole = np.reshape(made, (*others, *made.shape[1:]))
    place = axis_of(axis, np.ndim(arr))
    return np.moveaxis(whole, range(len(others), whole.ndim), range(place, place + made.ndim - 1))
