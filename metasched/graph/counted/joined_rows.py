"""Values joined along a dimension of which only a call knows how many elements there are: no gaps are left.

Where each part begins is a running sum of how many there are; an element looks for the part that has its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.size_arithmetic import sizes_of
from metasched.graph.errors import Unsupported
from metasched.graph.site import NodeSite, names
from metasched.graph.text import at, indices, number, place_within
from metasched.graph.value_type import ValueType

# Values that one program joins; more are joined in turns.
_MOST_JOINED_VALUES = 16


def join_rows(site: NodeSite, operands: Sequence[GraphValue], axis: int) -> GraphValue:
    """Values one behind another along an axis, of which some have so many elements along it as data decide.

    Raises Unsupported where data decide how many one has along another axis.
    """
    parts = list(operands)
    for part in parts:
        if part.count is not None and part.count.axis != axis:
            raise Unsupported(f"data decide how many elements {part.type} has along its dimension {part.count.axis}")
    while len(parts) > 1:
        parts = [
            _join_parts(site, parts[n : n + _MOST_JOINED_VALUES], axis)
            for n in range(0, len(parts), _MOST_JOINED_VALUES)
        ]
    return parts[0]


def _join_parts(site: NodeSite, parts: Sequence[GraphValue], axis: int) -> GraphValue:
    if len(parts) == 1:
        return parts[0]
    ends, first = _ends(site, parts, axis), parts[0]
    over, letters = indices(first.rank), names(len(parts))
    texts, last = [], len(parts) - 1
    for n, (letter, part) in enumerate(zip(letters, parts, strict=True)):
        place = f"{over[axis]} - X[{n - 1}]" if n else over[axis]
        place = place_within(place, part.shape[axis])
        texts.append(at(letter, [place if dim == axis else name for dim, name in enumerate(over)]))
    found = "".join(f"{text} if {over[axis]} < X[{n}] else " for n, text in enumerate(texts))
    room = sum(part.shape[axis] for part in parts)
    type_ = ValueType(first.type.dtype, tuple(room if dim == axis else n for dim, n in enumerate(first.shape)))
    stage = f"{at('Y', over)} = {found}{number(0, type_.dtype)}"
    made = site.single([stage], type_, X=ends, **dict(zip(letters, parts, strict=True)))
    total = site.single([f"Y[] = X[{last}]"], ValueType(DType.I64, ()), X=ends)
    return replace(made, count=ValueCount(total, axis))


def _ends(site: NodeSite, parts: Sequence[GraphValue], axis: int) -> GraphValue:
    """How many elements there are up to the end of each part."""
    sizes = [sizes_of(part)[axis] for part in parts]
    numbers = {f"N{n}": site.view(size.number, ()) for n, size in enumerate(sizes) if isinstance(size, DataSize)}
    texts = [f"N{n}[]" if isinstance(size, DataSize) else str(size) for n, size in enumerate(sizes)]
    sums = list(accumulate(texts, "{} + {}".format))
    chosen = "".join(f"{text} if k == {n} else " for n, text in enumerate(sums[:-1])) + sums[-1]
    return site.single([f"Y[k] = {chosen}"], ValueType(DType.I64, (len(parts),)), **numbers)
