"""Subscripts of arrays: numbers, slices, None, Ellipsis, and one array of indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_types.movement import sliced


@dataclass(frozen=True)
class _Picked:
    """An array of indices along an axis of what is left after slicing."""

    axis: int
    index: Any


def subscripted(trace: ArrayTrace, x: GraphValue, key: Any) -> GraphValue:
    """`x[key]`. Raises Unsupported for masks, for several arrays of indices, and for what is out of bounds."""
    entries = _whole(x, key if isinstance(key, tuple) else (key,))
    parts: dict[int, tuple[int, int, int]] = {}
    shape: list[int] = []
    picked: list[_Picked] = []
    axis = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
        elif isinstance(entry, slice):
            taken = range(x.shape[axis])[_static(entry)]
            parts[axis] = (taken.start, taken.step, len(taken))
            shape.append(len(taken))
            axis += 1
        elif _is_number(entry):
            parts[axis] = (_inside(operator.index(entry), x.shape[axis], axis), 1, 1)
            axis += 1
        else:
            picked.append(_Picked(len(shape), entry))
            shape.append(x.shape[axis])
            axis += 1
    if len(picked) > 1:
        raise Unsupported("an array is indexed by several arrays; np.take and np.take_along_axis can be traced")
    numbers = any(_is_number(entry) for entry in entries)
    if picked and numbers:
        raise Unsupported("an array is indexed by an array and a number at once; index by one after the other")
    made = trace.nodes.view(sliced(trace.nodes.site("Slice"), x, parts), shape)
    for one in picked:
        made = trace.nodes.call("Gather", made, _indices(trace, one.index), axis=one.axis)
    return made


def _whole(x: GraphValue, key: Sequence[Any]) -> list[Any]:
    """An entry for each dimension, and the new ones."""
    used = sum(entry is not None and entry is not Ellipsis for entry in key)
    if used > x.rank:
        raise Unsupported(f"too many indices for array: it is {x.rank}-dimensional, but {used} were indexed")
    if sum(entry is Ellipsis for entry in key) > 1:
        raise Unsupported("an index can only have a single ellipsis ('...')")
    rest = [slice(None)] * (x.rank - used)
    place = next((n for n, entry in enumerate(key) if entry is Ellipsis), len(key))
    return [*key[:place], *rest, *key[place + 1 :]]


def _is_number(entry: Any) -> bool:
    return not isinstance(entry, bool | np.bool_) and isinstance(entry, int | np.integer)


def _static(entry: slice) -> slice:
    for bound in (entry.start, entry.stop, entry.step):
        if isinstance(bound, TracedOperand):
            raise Unsupported("a slice's bound is computed from data; np.take with indices can be traced")
    if entry.step == 0:
        raise Unsupported("slice step cannot be zero")
    return entry


def _inside(index: int, extent: int, axis: int) -> int:
    if not -extent <= index < extent:
        raise Unsupported(f"index {index} is out of bounds for axis {axis} with size {extent}")
    return index % extent


def _indices(trace: ArrayTrace, index: Any) -> GraphValue:
    value = trace.value(index if isinstance(index, TracedOperand) else np.asarray(index))
    if value.type.dtype.is_bool:
        raise Unsupported("a mask picks as many elements as the data say; np.where(mask, x, y) keeps every element")
    if not value.type.dtype.is_integer:
        raise Unsupported("only integers, slices, None, Ellipsis and integer arrays are indices")
    return value
