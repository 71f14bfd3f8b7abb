"""Parts of known sizes along a dimension of which perhaps only a call knows how many elements there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from metasched.graph.builder import GraphValue
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.site import NodeSite
from metasched.graph.text import number


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
