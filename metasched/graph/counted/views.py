"""Views of values with a size that only a call knows: which dimension of the view has how many elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.size_arithmetic import Size, multiply_number, room_of
from metasched.graph.errors import Unsupported
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class ViewedAxis:
    """The dimension of a view that has the elements of one that data decide, `times` as many."""

    axis: int
    times: int


def viewed_axis(given: ValueType, made: ValueType, axis: int) -> ViewedAxis | None:
    """Where a dimension is in a view: one that has as many elements outside of it, and begins where it begins.

    None where there is no such dimension, or more than one.
    """
    outside, inside = prod(given.shape[:axis]), prod(given.shape[axis + 1 :])
    found = []
    for dim, extent in enumerate(made.shape):
        its = prod(made.shape[dim + 1 :])
        times = inside // its if its and inside % its == 0 else 0
        if prod(made.shape[:dim]) == outside and times and extent == given.shape[axis] * times:
            found.append(ViewedAxis(dim, times))
    return found[0] if len(found) == 1 else None


def count_in_view(site: NodeSite, count: ValueCount, seen: ViewedAxis) -> ValueCount:
    """The size of a dimension of a view."""
    if seen.times == 1:
        return replace(count, axis=seen.axis)
    return ValueCount(multiply_number(site, count.number, seen.times), seen.axis)


def reshape_value(site: NodeSite, x: GraphValue, wanted: Sequence[Size]) -> GraphValue:
    """A value in another shape, where data decide a size of it or of the shape; at most one of these is -1.

    Raises Unsupported where it is not known which dimension has the elements that there are.
    """
    if x.count is None:
        raise Unsupported(f"its shape has sizes that data decide, and its input {x.type} has none")
    open_ = [axis for axis, size in enumerate(wanted) if size == -1]
    rooms = list(room_of(wanted))
    others = prod(n for n in rooms if n != -1)
    if open_:
        if others == 0 or x.type.size % others:
            raise Unsupported(f"{x.type} has no shape {tuple(rooms)}")
        rooms[open_[0]] = x.type.size // others
    made = site.view(x, rooms)
    return replace(made, count=_count(site, x, made.type, wanted, open_))


def _count(site: NodeSite, x: GraphValue, made: ValueType, wanted: Sequence[Size], open_: Sequence[int]) -> ValueCount:
    count, decided = x.count, [axis for axis, size in enumerate(wanted) if isinstance(size, DataSize)]
    assert count is not None, x
    seen = viewed_axis(x.type, made, count.axis)
    what = f"data decide how many elements {x.type} has along its dimension {count.axis}, and {made} has no such one"
    if seen is None:
        # Fewer, longer rows: how many there are, the shape has to say.
        longer = viewed_axis(made, x.type, decided[0]) if len(decided) == 1 and not open_ else None
        size = wanted[decided[0]] if decided else None
        if longer is None or longer.axis != count.axis or not isinstance(size, DataSize):
            raise Unsupported(what)
        return ValueCount(size.number, decided[0])
    if [axis for axis in decided if axis != seen.axis]:
        raise Unsupported(what)
    if not open_ or open_ == [seen.axis]:  # then it is the only dimension whose size a call decides
        return count_in_view(site, count, seen)
    size = wanted[seen.axis]
    if seen.times == 1 and isinstance(size, DataSize) and site.builder.is_same_value(size.number, count.number):
        return replace(count, axis=seen.axis)
    raise Unsupported(f"its dimension {open_[0]} is what is left of as many elements as data decide")
