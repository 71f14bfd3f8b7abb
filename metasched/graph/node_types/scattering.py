"""Elements replaced, or joined with others, at places that are data: each element looks for what is for it.

Where the places are known at load, what is for an element is known, too: a condition on its indices where the places
are a box, such as the part of a tensor that is assigned to, and otherwise a number in a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType, holds_range
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.size_arithmetic import count_in, least_size, sizes_of
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.known_elements import known_elements
from metasched.graph.node_helpers.known_places import (
    BoxSide,
    box_of,
    last_updates,
    last_updates_along,
    wrap_negative_places,
)
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.node_helpers.repeated_elements import drop_repeats
from metasched.graph.node_types.gathering import Results, is_inside, nonnegative_index, wrap_negative_indices
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# From so many updates on, a table of which is where takes less time than to look through them.
_TABLE = 8
# Elements of a table for each update at most: it is kept as a constant.
_ELEMENTS_OF_UPDATE = 16

# Bytes, and the number of an update above one: as one number both are put where they belong.
_BYTES = (DType.BOOL, DType.U8, DType.I8)
_BYTE_VALUES = 256

_REDUCTIONS_BY_MODE = {
    "add": ("sum", "{0} + {1}"),
    "mul": ("prod", "{0} * {1}"),
    "max": ("max", "max({0}, {1})"),
    "min": ("min", "min({0}, {1})"),
}
_REDUCTIONS = ("none", *_REDUCTIONS_BY_MODE)


@dataclass(frozen=True)
class _Updates:
    """How an element looks through the updates that may be for it.

    Attributes:
        over: the indices of the elements.
        places: those of the updates, with `r0` for their number.
        count: how many there are.
        inside: conditions on elements that there are updates for at all.
        met: whether an update is for an element, under those.
        there: what only a call knows of how many updates there are, whose name is S.
        lines: the shape of the elements that may have updates of other numbers.
        last: for each of those, the number of the last update for it, or -1, where that is known.

    """

    over: tuple[str, ...]
    places: list[str]
    count: int
    inside: list[str]
    met: list[str]
    there: GraphValue | None
    lines: tuple[int, ...]
    last: Array | None = None


@node_type("ScatterElements", "Scatter", counts=True)
def scatter_elements(site: NodeSite) -> Results:
    """Updates of single elements: each element looks through the updates of its line for those that are for it."""
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    index, updates, count = _as_many_of_each(site, site.operand(1), site.operand(2))
    if index.rank != x.rank or _known_extents(index, count) != _known_extents(updates, count):
        raise Unsupported(f"its indices {index.type} and updates {updates.type} are not one for one, for {x.type}")
    extent, given = x.shape[axis], index.shape
    index = _drop_repeated_lines(site, wrap_negative_indices(site, index, extent), axis)
    over = indices(x.rank)
    line = [("r0" if dim == axis else name) for dim, name in enumerate(over)]
    own = [
        name if dim == axis or n == has else "0" if n == 1 else f"min({name}, {n - 1})"
        for dim, (n, has, name) in enumerate(zip(index.shape, x.shape, line, strict=True))
    ]
    inside = [f"{over[dim]} < {n}" for dim, n in enumerate(given) if dim != axis and n < x.shape[dim]]
    met = [f"{_target(at('I', own), x, axis)} == {over[axis]}"]
    if _is_one_looked_at(x, index, axis):
        index = _small_from_beginning(site, x, index, axis)
        met = [f"{at('I', own)} == i32({over[axis]})"]
    if count is not None:
        (met if count.axis == axis else inside).append(f"{line[count.axis]} < S[]")
    lines = tuple(1 if text == "0" else n for text, n in zip(own, x.shape, strict=True))
    there = None if count is None else site.view(count.number, ())
    how = _Updates(over, line, given[axis], inside, met, there, lines)
    if count is None and x.count is None and _is_table_small(site, lines, index):
        known = known_elements(site.builder, index)
        places = None if known is None else wrap_negative_places(known[..., None], (extent,))[..., 0]
        how = how if places is None else replace(how, last=last_updates_along(places, axis, lines))
    made = _scatter(site, (x, index, updates), how, _reduction(site))
    return (replace(made, count=x.count),)


def _is_one_looked_at(x: GraphValue, index: GraphValue, axis: int) -> bool:
    """Whether each line has one index, which a call computes, and a vector of elements many: all of them look at it."""
    is_of_call = index.constant is None and x.count is None and index.shape[axis] == 1 and axis < x.rank - 1
    return is_of_call and holds_range(DType.I32, -x.shape[axis], x.shape[axis])


def _small_from_beginning(site: NodeSite, x: GraphValue, index: GraphValue, axis: int) -> GraphValue:
    """Indices that a call computes as numbers of 32 bits from the beginning: all elements of a line look at them."""
    text, extent = nonnegative_index(at("A", indices(index.rank)), x.shape[axis]), x.shape[axis]
    stage = f"{at('Y', indices(index.rank))} = i32(min(max({text}, -1), {extent}))"
    return site.single([stage], replace(index.type, dtype=DType.I32), A=index)


def _drop_repeated_lines(site: NodeSite, index: GraphValue, axis: int) -> GraphValue:
    """Indices without what they repeat for other lines: what is the same for all of a line is looked for once."""
    source = drop_repeats(site.builder, index)
    return source if source.shape[axis] == index.shape[axis] else index


def _is_table_small(site: NodeSite, lines: Sequence[int], index: GraphValue) -> bool:
    """Whether a table of which update is for each element is worth its memory: where elements are replaced, by many."""
    updates = index.type.size
    return _reduction(site) == "none" and updates >= _TABLE and math.prod(lines) <= _ELEMENTS_OF_UPDATE * updates


def _as_many_of_each(
    site: NodeSite, index: GraphValue, updates: GraphValue
) -> tuple[GraphValue, GraphValue, ValueCount | None]:
    """Indices and updates, and how many there are of both, where only a call knows.

    Where data decide how many indices there are, and otherwise how many updates, those that have no other are left out:
    a mask may hold at more places than there are updates for, for all that is known at load.
    """
    counts = [value.count for value in (index, updates) if value.count is not None]
    if not counts:
        return index, updates, None
    axis = counts[0].axis
    if any(count.axis != axis for count in counts) or axis >= min(index.rank, updates.rank):
        raise Unsupported(
            f"data decide how many of its indices {index.type} there are, and along another dimension how many of its "
            f"updates {updates.type}"
        )
    if index.shape[axis] == updates.shape[axis] and all(
        site.builder.is_same_value(count.number, counts[0].number) for count in counts
    ):
        return index, updates, counts[0]
    count = count_in([least_size(site, *(sizes_of(value)[axis] for value in (index, updates)))])
    rows = min(index.shape[axis], updates.shape[axis])
    index, updates = (slice_axes(site, value, {axis: (0, 1, rows)}) for value in (index, updates))
    return index, updates, None if count is None else replace(count, axis=axis)


def _known_extents(value: GraphValue, count: ValueCount | None) -> tuple[int, ...]:
    """The sizes of a value that no call decides."""
    return tuple(n for dim, n in enumerate(value.shape) if count is None or dim != count.axis)


def _target(text: str, x: GraphValue, axis: int) -> str:
    """The expression of an index that may count from the end, which only a call may know: N."""
    if x.count is None or x.count.axis != axis:
        return nonnegative_index(text, x.shape[axis])
    return f"(i64({text}) + N[] if {text} < 0 else i64({text}))"


@node_type("ScatterND", counts=True)
def scatter_nd(site: NodeSite) -> Results:
    """Updates of rows. Where the places are a box, its elements are replaced; otherwise rows look for the updates that
    are for them.
    """
    x = site.operand(0)
    index, updates, count = _as_many_of_each(site, site.operand(1), site.operand(2))
    if count is not None and (count.axis or index.rank != 2):
        raise Unsupported(f"data decide how many of its indices {index.type} there are, which are no rows")
    places = None
    if count is None and x.count is None and x.type.size and index.type.size:
        elements = known_elements(site.builder, index)
        places = None if elements is None else wrap_negative_places(elements, x.shape)
    box = None if places is None else box_of(places)
    made = _scatter_rows(site, (index, updates), count, places) if box is None else _scatter_box(site, box)
    return (replace(made, count=x.count),)


def _scatter_rows(
    site: NodeSite, given: tuple[GraphValue, GraphValue], count: ValueCount | None, known: Array | None
) -> GraphValue:
    """Rows along the first dimensions as one, with updates for some in their place, or joined with them.

    `given` are indices and updates, and `known` the places, where these are known.
    """
    x, (index, updates) = site.operand(0), given
    depth = index.shape[-1]
    rows, length = math.prod(index.shape[:-1]), math.prod(x.shape[depth:])
    flat = site.view(x, (math.prod(x.shape[:depth]), length))
    update = site.view(updates, (rows, length))
    strides = [math.prod(x.shape[dim + 1 : depth]) for dim in range(depth)]
    targets = [_target(f"I[j0, {dim}]", x, dim) for dim in range(depth)]
    target = " + ".join(f"{own} * {stride}" for own, stride in zip(targets, strides, strict=True))
    if depth > 1 and known is None:
        # Along one dimension what is not there would be in the next row.
        inside = " and ".join(is_inside(own, extent) for own, extent in zip(targets, x.shape, strict=False))
        target = f"{target} if {inside} else -1"
    number_ = None if x.count is None else site.view(x.count.number, ())
    flat_index = site.view(index, (rows, depth))
    place = site.single([f"Y[j0] = {target or '0'}"], ValueType(DType.I64, (rows,)), I=flat_index, N=number_)
    met = ["I[r0] == i0"] + ([] if count is None else ["r0 < S[]"])
    there = None if count is None else site.view(count.number, ())
    lines = (flat.shape[0], 1)
    last = None
    if known is not None and _is_table_small(site, lines, place):
        last = last_updates(known.reshape(rows, depth) @ np.array(strides), lines[0])[:, None]
    how = _Updates(("i0", "i1"), ["r0", "i1"], rows, [], met, there, lines, last)
    return site.view(_scatter(site, (flat, place, update), how, _reduction(site)), x.shape)


def _reduction(site: NodeSite) -> str:
    return site.require_one_of("reduction", "none", _REDUCTIONS)


def _scatter(
    site: NodeSite, operands: tuple[GraphValue, GraphValue, GraphValue], how: _Updates, mode: str
) -> GraphValue:
    x, index, updates = operands
    if not index.type.size or not updates.type.size:
        return x
    over, own, met = how.over, at("A", how.over), " and ".join([*how.inside, *how.met])
    given = {"A": x, "I": index, "U": updates, "S": how.there}
    given["N"] = None if x.count is None else site.view(x.count.number, ())
    if mode == "none" and how.count == 1:
        picked, there = at("U", ["0" if name == "r0" else name for name in how.places]), re.sub(r"\br0\b", "0", met)
        return site.single([f"{at('Y', over)} = {picked} if {there} else {own}"], x.type, **given)
    if mode == "none":
        return _write_last_updates(site, x, how, given)
    reducer, joined = _REDUCTIONS_BY_MODE[mode]
    total = at("T", over)
    wide = x.type.dtype.compute
    term = at("U", how.places)
    stages = [
        declare_buffer("T", ValueType(wide, x.shape)),
        f"{total} = {reducer}[r0 < {how.count} if {met}]({wide}({term}))",
        f"{at('Y', over)} = {x.type.dtype}({joined.format(f'{wide}({own})', total)})",
    ]
    return site.single(stages, x.type, **given)


def _scatter_box(site: NodeSite, box: Sequence[BoxSide]) -> GraphValue:
    """A tensor with a box of it replaced by updates, or joined with them."""
    x, updates, mode = site.operand(0), site.operand(2), _reduction(site)
    over = indices(x.rank)
    sides = list(zip(box, over, x.shape, strict=False))
    places = ["0"] * (updates.rank - x.rank + len(box)) + list(over[len(box) :])
    for side, name, _ in sides:
        if side.axis is not None:
            places[side.axis] = side.update_index(name)
    own, update = at("A", over), at("U", places)
    made = update
    if mode != "none":
        wide, (_, joined) = x.type.dtype.compute, _REDUCTIONS_BY_MODE[mode]
        made = f"{x.type.dtype}({joined.format(f'{wide}({own})', f'{wide}({update})')})"
    inside = " and ".join(text for side, name, extent in sides for text in side.condition(name, extent))
    text = f"{made} if {inside} else {own}" if inside else made
    return site.single([f"{at('Y', over)} = {text}"], x.type, A=x, U=updates)


def _write_last_updates(
    site: NodeSite, x: GraphValue, how: _Updates, given: dict[str, GraphValue | None]
) -> GraphValue:
    """Elements with the last update that is for them in their place."""
    line = ["0" if n == 1 else name for n, name in zip(how.lines, how.over, strict=True)]
    last = f"i64({at('P', line)})"
    guard = " and ".join([is_inside(last, how.count), *how.inside])
    picked = at("U", [last if name == "r0" else name for name in how.places])
    text = f"{at('Y', how.over)} = {picked} if {guard} else {at('A', how.over)}"
    if how.last is not None:
        return site.single([text], x.type, **given, P=site.constant(how.last, DType.I32))
    # What a line has one of says nothing of its elements.
    alone = {name for name, own in zip(how.over, line, strict=True) if own == "0"}
    met = " and ".join([*(text for text in how.inside if text.split()[0] not in alone), *how.met])
    wide = next((d for d in (DType.I16, DType.I32) if holds_range(d, 0, how.count * _BYTE_VALUES - 1)), None)
    if x.type.dtype in _BYTES and wide is not None:
        return _write_bytes(site, x, how, met, given, wide)
    # Numbers are as small as they may be: elements and updates come from anywhere in their table, all of which is read.
    small = next((dtype for dtype in (DType.I8, DType.I16) if holds_range(dtype, 0, how.count - 1)), DType.I32)
    stages = [
        declare_buffer("P", ValueType(small, how.lines)),
        f"{at('P', how.over)} = max[r0 < {how.count} if {met}]({small}(r0))",
        text,
    ]
    return site.single(stages, x.type, **given)


def _write_bytes(
    site: NodeSite, x: GraphValue, how: _Updates, met: str, given: dict[str, GraphValue | None], wide: DType
) -> GraphValue:
    """Bytes with the last update that is for them in their place: what is greatest of its number and its value, as one
    number. So nothing is gathered.
    """
    dtype, number = x.type.dtype, at("P", how.over)
    value = f"{wide}({at('U', how.places)})" if dtype is not DType.I8 else f"({wide}({at('U', how.places)}) + 128)"
    low = f"({number} & {_BYTE_VALUES - 1})"
    made = {DType.BOOL: f"{low} != 0", DType.U8: f"u8({low})", DType.I8: f"i8({low} - 128)"}[dtype]
    there = " and ".join([f"{number} >= 0", *how.inside])
    stages = [
        declare_buffer("P", ValueType(wide, x.shape)),
        f"{number} = max[r0 < {how.count} if {met}]({wide}(r0) * {_BYTE_VALUES} + {value})",
        f"{at('Y', how.over)} = {made} if {there} else {at('A', how.over)}",
    ]
    return site.single(stages, x.type, **given)


@node_type("TensorScatter")
def tensor_scatter(site: NodeSite) -> Results:
    """A cache with a stretch along one axis replaced: it begins at a place of each batch element's own."""
    cache, update, start = site.operand(0), site.operand(1), site.optional(2)
    axis = site.axis(int(site.attribute("axis", -2)), cache.rank)
    extent, count = cache.shape[axis], update.shape[axis]
    if axis == 0 or count > extent:
        raise Unsupported(f"{update.type} is no stretch of {cache.type} along the axis {axis}")
    over = indices(cache.rank)
    first = "0" if start is None else f"i64(W[{over[0]}])"
    place = f"{over[axis]} - {first}"
    if site.require_one_of("mode", "linear", ("linear", "circular")) == "circular":
        place = f"({place}) % {extent}"
    picked = at("U", [place if dim == axis else name for dim, name in enumerate(over)])
    text = f"{picked} if {is_inside(place, count)} else {at('A', over)}"
    return (site.single([f"{at('Y', over)} = {text}"], cache.type, A=cache, U=update, W=start),)
