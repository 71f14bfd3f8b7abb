"""Values whose elements are those of others elsewhere: other orders of dimensions, parts, values side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.graph.builder import GraphValue
from metasched.graph.site import NodeSite, names
from metasched.graph.text import at, indices, number, read
from metasched.graph.value_type import ValueType

# Values that one program joins; more are joined in turns.
_MOST_JOINED_VALUES = 16


def transpose_axes(site: NodeSite, x: GraphValue, order: Sequence[int]) -> GraphValue:
    """A value with its dimensions in another order."""
    shape = tuple(x.shape[axis] for axis in order)
    moved = [axis for axis in order if x.shape[axis] != 1]
    if moved == sorted(moved):
        return site.view(x, shape)
    over = indices(x.rank)
    subscripts = [over[order.index(axis)] for axis in range(x.rank)]
    return site.single([f"{at('Y', over)} = {at('A', subscripts)}"], ValueType(x.type.dtype, shape), A=x)


def mirror_axis(site: NodeSite, x: GraphValue, axis: int) -> GraphValue:
    """A value with the elements along an axis from the last to the first."""
    over = indices(x.rank)
    places = [f"{x.shape[dim] - 1} - {name}" if dim == axis else name for dim, name in enumerate(over)]
    return site.single([f"{at('Y', over)} = {at('A', places)}"], x.type, A=x)


def elements_of(start: int, end: int, step: int, extent: int) -> slice:
    """What a node Slice takes of so many elements.

    A place before the first is the first, also where a backward slice starts; Python's has nothing there. A backward
    one that ends there goes on to the first.
    """
    return slice(max(start, -extent), None if step < 0 and end < -extent else end, step)


def slice_axes(site: NodeSite, x: GraphValue, parts: dict[int, tuple[int, int, int]]) -> GraphValue:
    """Part of a tensor: along some axes, from a start, by a step, so many elements."""
    over, shape = list(indices(x.rank)), list(x.shape)
    for axis, (start, step, count) in parts.items():
        shape[axis] = count
        scaled = over[axis] if step == 1 else f"{over[axis]} * ({step})"
        over[axis] = scaled if start == 0 else f"{scaled} + {start}"
    # The whole of a table is computed like a part of it: a decoder takes more of it with each call, and so has nodes of
    # one kind at all lengths, up to that at which the table is used up.
    is_whole = tuple(shape) == x.shape and all(step == 1 for _, step, _ in parts.values())
    if is_whole and x.depends:
        return x
    stage = f"{at('Y', indices(x.rank))} = {at('A', over)}"
    return site.single([stage], ValueType(x.type.dtype, tuple(shape)), A=x)


def entry_of(site: NodeSite, x: GraphValue, number: int) -> GraphValue:
    """One entry of the first dimension."""
    return site.view(slice_axes(site, x, {0: (number, 1, 1)}), x.shape[1:])


def replace_part(
    site: NodeSite, x: GraphValue, parts: Mapping[int, tuple[int, int, int]], update: GraphValue
) -> GraphValue:
    """A tensor in which the part that `slice_axes` would take is `update`, broadcast to its shape."""
    over, met, places = indices(x.rank), [], list(indices(x.rank))
    shape = list(x.shape)
    for axis, (start, step, count) in parts.items():
        shape[axis] = count
        low, high = sorted((start, start + step * (count - 1)))
        i, every = over[axis], abs(step) if count > 1 else 1
        met += [f"{i} >= {low}"] * (low > 0) + [f"{i} < {high + 1}"] * (high + 1 < x.shape[axis])
        place = f"{i} - {low}" if low else i
        if every > 1:
            met.append(f"({place}) % {every} == 0")
            place = f"({place}) // {every}"
        places[axis] = place if step > 0 or count == 1 else f"{count - 1} - ({place})"
    if 0 in shape:
        return x
    known = update.constant if update.type.size == 1 else None
    text = None if known is None else number(known.reshape(-1)[0].item(), x.type.dtype)
    given = {"B": update} if text is None else {}
    text = text or read("B", update.shape, places, tuple(shape))
    if not met:
        return site.single([f"{at('Y', over)} = {text}"], x.type, **given)
    stage = f"{at('Y', over)} = {text} if {' and '.join(met)} else {at('A', over)}"
    return site.single([stage], x.type, A=x, **given)


def stack_values(site: NodeSite, values: Sequence[GraphValue], axis: int) -> GraphValue:
    """Values along a new dimension; programs of a few values each, since one of many is deep."""
    shape = values[0].shape
    made = [site.view(value, (*shape[:axis], 1, *shape[axis:])) for value in values]
    while len(made) > 1:
        starts = range(0, len(made), _MOST_JOINED_VALUES)
        made = [_join_parts(site, made[n : n + _MOST_JOINED_VALUES], axis) for n in starts]
    return made[0]


def _join_parts(site: NodeSite, parts: Sequence[GraphValue], axis: int) -> GraphValue:
    if len(parts) == 1:
        return parts[0]
    over, letters = indices(parts[0].rank), names(len(parts))
    text, end = "", 0
    for number_, (letter, part) in enumerate(zip(letters, parts, strict=True), 1):
        subscripts = list(over)
        subscripts[axis] = f"{over[axis]} - {end}" if end else over[axis]
        end += part.shape[axis]
        text += at(letter, subscripts) + ("" if number_ == len(parts) else f" if {over[axis]} < {end} else ")
    shape = tuple(end if dim == axis else n for dim, n in enumerate(parts[0].shape))
    given = dict(zip(letters, parts, strict=True))
    return site.single([f"{at('Y', over)} = {text}"], ValueType(parts[0].type.dtype, shape), **given)
