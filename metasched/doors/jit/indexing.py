"""Subscripts of arrays: numbers, slices, None, Ellipsis, arrays of indices, and masks. They are read and assigned."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import EllipsisType
from typing import Any

import numpy as np

from metasched.doors.indexed_places import gather_at_places, scatter_at_places, shape_of
from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.trace import ArrayTrace, Layout, TracedOperand
from metasched.doors.jit.views import make_view
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import replace_part, slice_axes
from metasched.graph.text import broadcast
from metasched.support.data_classes import dataclass

MASK = (
    "a mask picks as many elements as the data say; np.where(mask, x, y) keeps every element, and reductions take what "
    "a mask picks: x[mask].sum(), np.sum(x, where=mask)"
)


@dataclass(frozen=True)
class SlicedPart:
    """What numbers, slices and new dimensions take of an array: a view.

    Attributes:
        parts: for some axes, where they begin, the step, and how many elements there are.
        shape: of what is taken.
        dims: for each axis of the array, the dimension of `shape` that it is; None for a number.

    """

    parts: tuple[tuple[int, tuple[int, int, int]], ...]
    shape: tuple[int, ...]
    dims: tuple[int | None, ...]

    def read_from(self, trace: ArrayTrace, whole: GraphValue) -> GraphValue:
        return trace.nodes.view(slice_axes(trace.nodes.site("Slice"), whole, dict(self.parts)), self.shape)

    def write_into(self, trace: ArrayTrace, whole: GraphValue, part: GraphValue) -> GraphValue:
        """Write a part, broadcast to the shape, into the elements."""
        more = max(part.rank - len(self.shape), 0)
        given = (*(1,) * (len(self.shape) - part.rank), *part.shape[more:])
        if any(n != 1 for n in part.shape[:more]) or broadcast(self.shape, given) != self.shape:
            raise Unsupported(f"could not broadcast {part.type} into shape {self.shape}")
        along = [1 if dim is None else given[dim] for dim in self.dims]
        return replace_part(trace.nodes.site("Assign"), whole, dict(self.parts), trace.nodes.view(part, along))

    def layout(self, whole: Layout) -> Layout:
        keys: list[Any] = [slice(None)] * whole.ndim
        for axis, (start, step, count) in self.parts:
            stop = start + step * count
            keys[axis] = slice(start, stop if stop >= 0 else None, step)
        for axis, dim in enumerate(self.dims):
            if dim is None:
                keys[axis] = keys[axis].start
        made: Layout = whole[tuple(keys)]
        for new in sorted({*range(len(self.shape))} - {*self.dims}):
            made = np.expand_dims(made, new)
        return made


@dataclass(frozen=True)
class Subscript:
    """A key of an array.

    Attributes:
        part: what its slices take; arrays of indices, and numbers beside them, take all.
        places: indices by the dimensions of what is taken.
        first: which dimension of the result the indices' first is.
        mask: a mask of data, and the dimension of what is taken that is its first.

    """

    part: SlicedPart
    places: Mapping[int, GraphValue] = field(default_factory=dict)
    first: int = 0
    mask: tuple[int, GraphValue] | None = None


@dataclass(frozen=True)
class MaskedPart:
    """What a mask of data picks: those of some elements for which it holds.

    Attributes:
        everywhere: the elements, whether it holds or not.
        dim: their dimension that is the mask's first.
        mask: the mask.

    """

    everywhere: GraphValue
    dim: int
    mask: GraphValue

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of the elements that are the mask's."""
        return tuple(range(self.dim, self.dim + self.mask.rank))

    @property
    def broadcast_shape(self) -> tuple[int, ...]:
        """The shape in which the mask is broadcast to the elements."""
        return (*self.mask.shape, *(1,) * (self.everywhere.rank - self.dim - self.mask.rank))

    def is_of(self, trace: ArrayTrace, other: MaskedPart) -> bool:
        """Whether another one is of the same elements."""
        same_place = (self.dim, self.mask.shape) == (other.dim, other.mask.shape)
        return same_place and trace.builder.is_same_value(self.mask, other.mask)


def subscript_array(array: TracedOperand, key: Any) -> Any:
    """`array[key]`: a view by numbers and slices, a copy by arrays of indices, or a MaskedPart. Raises Unsupported."""
    trace = array.own_trace
    found = _subscript(trace, array.value.shape, key)
    if found.mask is not None:
        return MaskedPart(found.part.read_from(trace, array.value), *found.mask)
    if not found.places:
        made = make_view(trace, array, found.part)
        # A number is no view of the array that it is from.
        return made if made.value.rank or _has_ellipsis(key) else made.value
    return gather_at_places(trace.nodes, found.part.read_from(trace, array.value), found.places, found.first)


def assign(array: TracedOperand, key: Any, given: Any) -> None:
    """`array[key] = given`. Raises Unsupported and TraceError."""
    trace, whole = array.own_trace, array.value
    found = _subscript(trace, whole.shape, key)
    view = given.view_of if isinstance(given, TracedOperand) and not found.places and not found.mask else None
    if view is not None and view[0] is array and view[1] == found.part:
        return  # `array[key] += 1` has written it already
    if found.mask is not None:
        masked = MaskedPart(found.part.read_from(trace, whole), *found.mask)
        array.write(found.part.write_into(trace, whole, _merge_masked(trace, masked, given)))
        return
    update = trace.value(given, whole.type.dtype)
    if found.places:
        own = found.part.read_from(trace, whole)
        update = scatter_at_places(trace.nodes, own, found.places, found.first, update)
    array.write(found.part.write_into(trace, whole, update))


def add_at(array: TracedOperand, key: Any, given: Any, reduction: str) -> None:
    """`np.add.at(array, key, given)`, and the like. Raises Unsupported and TraceError."""
    trace, whole = array.own_trace, array.value
    found = _subscript(trace, whole.shape, key)
    if not found.places:
        raise Unsupported("its indices are no arrays; array[key] += x adds by slices")
    own, update = found.part.read_from(trace, whole), trace.value(given, whole.type.dtype)
    made = scatter_at_places(trace.nodes, own, found.places, found.first, update, reduction)
    array.write(found.part.write_into(trace, whole, made))


def _merge_masked(trace: ArrayTrace, own: MaskedPart, given: Any) -> GraphValue:
    """Elements with others where a mask holds: those of the same mask, or one for all or for each other dimension."""
    elements, mask = own.everywhere, trace.nodes.view(own.mask, own.broadcast_shape)
    part = getattr(given, "part", None)
    if isinstance(part, MaskedPart):
        if not own.is_of(trace, part):
            raise Unsupported("elements of one mask are assigned to those of another; " + MASK)
        return trace.nodes.select(mask, trace.nodes.cast(part.everywhere, elements.type.dtype), elements)
    update = trace.value(given, elements.type.dtype)
    behind = len(own.broadcast_shape) - own.mask.rank
    if update.rank > behind:
        at_mask = update.rank - behind - 1
        if update.shape[at_mask] != 1:
            raise Unsupported("as many elements are assigned as a mask of data picks; " + MASK)
        ones = (1,) * own.mask.rank
        update = trace.nodes.view(update, (*update.shape[:at_mask], *ones, *update.shape[at_mask + 1 :]))
    if broadcast(elements.shape, update.shape) != elements.shape:
        raise Unsupported(f"{update.type} is assigned to elements of {elements.type} by a mask")
    return trace.nodes.select(mask, update, elements)


# --- keys -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Index:
    """An entry of a key that is an array of indices, or a number beside one."""

    value: GraphValue


@dataclass(frozen=True)
class _Mask:
    """An entry of a key that is a mask of data."""

    value: GraphValue


def _subscript(trace: ArrayTrace, shape: tuple[int, ...], key: Any) -> Subscript:
    """A key, for an array of a shape. Raises Unsupported for what is out of bounds."""
    given = _convert_key_arrays(trace, key if isinstance(key, tuple) else (key,))
    entries = _expand_key(shape, given)
    parts: dict[int, tuple[int, int, int]] = {}
    taken: list[int] = []
    dims: list[int | None] = []
    places: dict[int, GraphValue] = {}
    mask: tuple[int, GraphValue] | None = None
    for entry in entries:
        axis = len(dims)
        if entry is None:
            taken.append(1)
        elif isinstance(entry, slice):
            kept = range(shape[axis])[_static(entry)]
            if kept != range(shape[axis]):
                parts[axis] = (kept.start, kept.step, len(kept))
            dims.append(len(taken))
            taken.append(len(kept))
        elif isinstance(entry, _Mask):
            rank = entry.value.rank
            if mask is not None or entry.value.shape != shape[axis : axis + rank]:
                raise Unsupported(f"boolean index of {entry.value.type} does not match an array of shape {shape}")
            mask = (len(taken), entry.value)
            dims += range(len(taken), len(taken) + rank)
            taken += entry.value.shape
        elif isinstance(entry, _Index):
            places[len(taken)] = entry.value
            dims.append(len(taken))
            taken.append(shape[axis])
        else:
            parts[axis] = (_require_index(entry, shape[axis], axis), 1, 1)
            dims.append(None)
    if mask is not None and places:
        raise Unsupported("a mask of data stands beside arrays of indices; index by one after the other")
    whole = SlicedPart(tuple(parts.items()), tuple(taken), tuple(dims))
    return Subscript(whole, places, _first_index_dim(given, places), mask)


def _first_index_dim(key: Sequence[Any], places: Mapping[int, GraphValue]) -> int:
    """The result's first dimension of indices: in their place if they are side by side, and 0 if they are not."""
    where = [n for n, entry in enumerate(key) if isinstance(entry, _Index)]
    apart = any(b - a > 1 for a, b in itertools.pairwise(where))
    return 0 if apart else min(places, default=0)


def _convert_key_arrays(trace: ArrayTrace, key: Sequence[Any]) -> list[Any]:
    """A key with its arrays as values: a known mask as the places where it holds, a number as an array beside one."""
    found: list[Any] = []
    for entry in key:
        if entry is None or isinstance(entry, slice | EllipsisType) or _is_number(entry):
            found.append(entry)
            continue
        if isinstance(entry, bool | np.bool_):
            raise Unsupported("a bool is no index; None makes a new dimension")
        value = trace.value(entry if isinstance(entry, TracedOperand) else np.asarray(entry))
        if value.constant is not None and not value.type.size:
            value = trace.nodes.cast(value, DType.I64)
        if not value.type.dtype.is_bool:
            shape_of({0: value})
            found.append(_Index(value))
        elif value.constant is not None:
            found += [_Index(trace.nodes.constant("positions", n)) for n in np.nonzero(value.constant)]
        else:
            found.append(_Mask(value))
    if not any(isinstance(entry, _Index) for entry in found):
        return found
    return [_Index(trace.nodes.constant("position", np.array(n))) if _is_number(n) else n for n in found]


def _expand_key(shape: tuple[int, ...], key: Sequence[Any]) -> list[Any]:
    """An entry for each dimension, and the new ones."""
    used = sum(entry.value.rank if isinstance(entry, _Mask) else entry not in (None, Ellipsis) for entry in key)
    if used > len(shape):
        raise Unsupported(f"too many indices for array: it is {len(shape)}-dimensional, but {used} were indexed")
    if _has_ellipsis(key) and sum(entry is Ellipsis for entry in key) > 1:
        raise Unsupported("an index can only have a single ellipsis ('...')")
    rest = [slice(None)] * (len(shape) - used)
    place = next((n for n, entry in enumerate(key) if entry is Ellipsis), len(key))
    return [*key[:place], *rest, *key[place + 1 :]]


def _has_ellipsis(key: Any) -> bool:
    return any(entry is Ellipsis for entry in (key if isinstance(key, tuple | list) else (key,)))


def _is_number(entry: Any) -> bool:
    return not isinstance(entry, bool | np.bool_) and isinstance(entry, int | np.integer)


def _static(entry: slice) -> slice:
    for bound in (entry.start, entry.stop, entry.step):
        if isinstance(bound, TracedOperand):
            raise TraceError(
                "a slice's bound is computed from data",
                "x[start + np.arange(n)] takes n elements from a place that is data on",
            )
    if entry.step == 0:
        raise Unsupported("slice step cannot be zero")
    return entry


def _require_index(number: Any, extent: int, axis: int) -> int:
    index = operator.index(number)
    if not -extent <= index < extent:
        raise Unsupported(f"index {index} is out of bounds for axis {axis} with size {extent}")
    return index % extent
