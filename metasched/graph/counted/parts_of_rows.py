"""Parts along a dimension of which perhaps only a call knows how many elements there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, product

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.counted.places_that_hold import room_for
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.counted.size_arithmetic import set_count
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.registry import call_node
from metasched.graph.site import NodeSite
from metasched.graph.text import number
from metasched.graph.value_type import ValueType


def is_open(x: GraphValue, axis: int) -> bool:
    """Whether only a call knows how many elements there are along an axis."""
    return x.count is not None and x.count.axis == axis


def no_sizes_of_parts(x: GraphValue, axis: int, what: str) -> Unsupported:
    """Why a value is not taken apart by a rule that goes by how many elements it has along an axis."""
    return Unsupported(
        f"data decide how many elements {x.type} has along its dimension {axis}, {x.shape[axis]} at most, and so "
        f"{what}: it can be taken apart in parts of given sizes",
        tuple(sorted(x.depends)),
    )


def parts_along(site: NodeSite, axis: int, sizes: Sequence[int]) -> tuple[GraphValue, ...]:
    """Parts of a node's first input, one behind another along an axis.

    Where data decide how many elements there are along it, parts have their sizes nevertheless: elements that are not
    there are zero, and those behind the last part are in none. Raises Unsupported where the input has no such parts.
    """
    x = site.operand(0)
    if is_open(x, axis):
        if min(sizes, default=0) < 0 or sum(sizes) > x.shape[axis]:
            raise Unsupported(
                f"the axis {axis} of {x.type}, along which data decide how many elements there are, has no parts of "
                f"{sizes}: there are {x.shape[axis]} elements at most"
            )
        return _slice_parts(site, fill_absent(site, x, str(number(0, x.type.dtype))), axis, sizes)
    if min(sizes, default=0) < 0 or sum(sizes) != x.shape[axis]:
        raise Unsupported(f"the axis {axis} of {x.type} has no parts of {sizes}")
    made = run_on_rows(lambda site: _slice_parts(site, x, axis, sizes), site)
    return tuple(part for part in made if part is not None)


def _slice_parts(site: NodeSite, x: GraphValue, axis: int, sizes: Sequence[int]) -> tuple[GraphValue, ...]:
    starts = accumulate(sizes, initial=0)
    return tuple(slice_axes(site, x, {axis: (start, 1, size)}) for start, size in zip(starts, sizes, strict=False))


def part_of_those_there(site: NodeSite, x: GraphValue, part: slice) -> GraphValue:
    """A slice along the dimension that data decide, of the elements that are there: from their end on, or backwards."""
    count, step = x.count, part.step
    assert count is not None, x
    extent = x.shape[count.axis]
    # Places further out mean the same, and might not be counted from in 64 bits.
    start, end = (min(max(place, -extent - 1), extent) for place in (part.start, part.stop))
    least, most = ("0", "{0}") if step > 0 else ("-1", "{0} - 1")
    begin, stop = (
        f"max({{0}} + ({place}), {least})" if place < 0 else f"min({place}, {most})" for place in (start, end)
    )
    length = f"({stop}) - ({begin})" if step > 0 else f"({begin}) - ({stop})"
    number = site.view(count.number, ())
    total = site.elementwise(f"max(({length} + {abs(step) - 1}) // {abs(step)}, 0)", number)
    text = f"Y[i] = min(max({begin.format('N[]')} + i * ({step}), 0), {extent - 1})"
    room = room_for(_most_taken(extent, slice(start, end, step)))
    places = site.single([text], ValueType(DType.I64, (room,)), N=number)
    made = call_node(site, "Gather", replace(x, count=None), places, axis=count.axis)
    return set_count(site, made, ValueCount(total, count.axis))


def _most_taken(extent: int, part: slice) -> int:
    """The most elements that a slice takes of up to so many: it is one of those where it begins to take fewer."""
    turns = (extent, abs(part.start), abs(part.stop), abs(part.start) + abs(part.stop))
    sizes = {min(max(turn + more, 0), extent) for turn, more in product(turns, (-1, 0, 1))}
    last = None if part.step < 0 and part.stop < -extent else part.stop
    return max(len(range(size)[part.start : last : part.step]) for size in sizes)
