"""How an order of one tensor of a stage carries over to the others: by the indices that both have."""

from __future__ import annotations

from collections.abc import Collection

from metasched.graph.fusion.expressions import names_in
from metasched.graph.fusion.views import Shape, align_dimensions
from metasched.graph.layouts.preferences import Last
from metasched.ir.source import Read, Stage


def last_of_read(stage: Stage, result_last: Last, read: Read) -> Last:
    """The dimensions to be innermost of what a stage reads, given those of its result; none where it has no such.

    Lanes go along the innermost one: of what does not move with it they read one element, wherever that lies.
    """
    axes = {stage.axes[dim].name for dim in result_last}
    lanes = {stage.axes[dim].name for dim in result_last[-1:]}
    if not any(names_in(index) & lanes for index in read.indices):
        return ()
    return tuple(dim for dim, index in enumerate(read.indices) if names_in(index) & axes)


def last_of_result(stage: Stage, read: Read, read_last: Last) -> Last:
    """The dimensions to be innermost of a stage's result, given those of what it reads; none where it has no such."""
    names = frozenset().union(*(names_in(read.indices[dim]) for dim in read_last))
    return tuple(dim for dim, axis in enumerate(stage.axes) if axis.name in names)


def last_through_view(last: Last, given: Shape, made: Shape) -> Last | None:
    """The dimensions to be innermost of the same elements in another shape.

    None where the view would be none any more: it joins dimensions that are to be innermost with others that are not.
    """
    out: list[int] = []
    for own, other in align_dimensions(given, made):
        moved = [dim in last for dim in own if given[dim] > 1]
        if any(moved) and not all(moved):
            return None
        if any(moved):
            out += [dim for dim in other if made[dim] > 1]
    return tuple(out)


def drop_unit_dimensions(last: Collection[int], shape: Shape) -> Last:
    """Dimensions without those of one element, which are innermost anyway."""
    return tuple(dim for dim in last if shape[dim] > 1)
