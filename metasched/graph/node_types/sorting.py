"""The largest elements of each row, in order.

There is no order among iterations to sort by: the rank of an element is how many come before it, which takes n * n
comparisons of n elements. Longer rows are ranked in blocks, which are merged in pairs
(`node_helpers/merged_blocks.py`). Few elements are picked one by one instead: each step looks for the first of those
that come after the one before; where rows are much longer than that, in blocks, of which few have to be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt, prod

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.absent_elements import with_absent
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.counted.size_arithmetic import Size, asked_sizes, number_of, sizes_of, with_count
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.merged_blocks import Order, sorted_row
from metasched.graph.node_helpers.moved_elements import stacked
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices, limits
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

# So many elements are picked one by one at most, each by a kernel that takes as long as so many comparisons by itself.
_MOST_STEPS, _OF_A_KERNEL = 128, 1024
# What an element of a longer row takes at most until it is in its place, in comparisons.
_OF_AN_ELEMENT = 512


@dataclass(frozen=True)
class _Row:
    """The elements of an operand along an axis."""

    elements: GraphValue
    axis: int

    @property
    def extent(self) -> int:
        return self.elements.shape[self.axis]

    def shape(self, *extents: int) -> tuple[int, ...]:
        """That of the elements, with other dimensions in place of the row's."""
        shape = self.elements.shape
        return (*shape[: self.axis], *extents, *shape[self.axis + 1 :])

    def along(self, *names: str) -> list[str]:
        """Subscripts, with these for the row."""
        over = indices(self.elements.rank)
        return [*over[: self.axis], *names, *over[self.axis + 1 :]]


@node_type("TopK", counts=True)
def top_k(site: NodeSite) -> tuple[GraphValue | None, ...]:
    """The first elements of each row, as many as are asked for; of as many as data decide, those that are there."""
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    (k,) = asked_sizes(site, 1, "k")
    if x.count is not None and x.count.axis == axis:
        return _of_those_there(site, x, axis, k)
    if not isinstance(k, DataSize):
        return run_on_rows(_first, site)
    if x.count is not None:
        raise Unsupported(f"data decide how many elements {x.type} has along its dimension {x.count.axis}")
    return _of_those_there(site, x, axis, k)


def _of_those_there(site: NodeSite, x: GraphValue, axis: int, k: Size) -> Results:
    """As many of the elements that are there as are asked for, or all of them; those that are not there come last."""
    there, room = sizes_of(x)[axis], x.shape[axis]
    asked = k.most if isinstance(k, DataSize) else k
    if not isinstance(k, DataSize) and not 0 <= k <= room:
        raise Unsupported(f"it takes {k} of at most {room} elements")
    most = min(asked, room)
    taken = site.elementwise(f"min(min({{0}}, {{1}}), {most})", *(number_of(site, size) for size in (k, there)))
    inputs = (
        with_absent(site, x, Order(x.type.dtype, site.flag("largest", 1)).last),
        site.constant(np.array([most], np.int64)),
    )
    made = _first(replace(site, inputs=inputs))
    return tuple(with_count(site, value, ValueCount(taken, axis)) for value in made)


def _first(site: NodeSite) -> Results:
    """A known number of elements of each row."""
    x = site.operand(0)
    row = _Row(x, site.axis(int(site.attribute("axis", -1)), x.rank))
    k, largest = site.integers(1, "k")[0], site.flag("largest", 1)
    if not 0 <= k <= row.extent:
        raise Unsupported(f"it takes {k} of {row.extent} elements")
    if 0 < k <= _MOST_STEPS and (length := _block_length(row, k)):
        return _by_blocks(site, row, k, length, largest=largest)
    if 0 < k <= _MOST_STEPS and _is_picked_faster(row, k):
        return _one_by_one(site, row, k, largest=largest)
    return sorted_row(site, x, row.axis, k, largest=largest)


def _is_picked_faster(row: _Row, k: int) -> bool:
    """Whether `k` steps over all elements take fewer comparisons than to sort them."""
    elements = prod(row.shape()) * row.extent
    return k * (elements + _OF_A_KERNEL) < elements * min(row.extent, _OF_AN_ELEMENT)


def _block_length(row: _Row, k: int) -> int:
    """How long blocks are of which those with the first elements hold all that are taken; 0 where they save little.

    At this length the fewest elements are looked at: the first one of each block, and those of the blocks taken.
    """
    length = max(isqrt(row.extent // k), 1)
    looked_at = row.extent + k * (-(-row.extent // length) + k * length)
    is_enough = prod(row.shape()) * (k * row.extent - looked_at) > 2 * k * _OF_A_KERNEL
    return length if is_enough and 2 * looked_at < k * row.extent else 0


def _by_blocks(site: NodeSite, row: _Row, k: int, length: int, *, largest: bool) -> Results:
    """The first `k` elements, looked for in the `k` blocks whose own first elements come first.

    An element of another block comes after these `k`. Blocks stay in their order, so that equal elements do.
    """
    blocks = _in_blocks(site, row, length, Order(row.elements.type.dtype, largest).last)
    count, over = blocks.shape[row.axis], indices(blocks.rank)
    firsts, _ = _one_by_one(site, _Row(blocks, row.axis + 1), 1, largest=largest)
    heads = _Row(site.view(firsts, row.shape(count)), row.axis)
    taken = _ascending(site, heads, _one_by_one(site, heads, k, largest=largest)[1])
    before, inside = over[: row.axis], over[row.axis + 1 :]
    own = at("C", (*before, over[row.axis], *inside[1:]))
    some = (
        f"{at('A', (*before, own, *inside))} if {own} >= 0 and {own} < {count} else {at('A', (*before, '0', *inside))}"
    )
    shape = (*blocks.shape[: row.axis], k, *blocks.shape[row.axis + 1 :])
    found = site.single([f"{at('Y', over)} = {some}"], ValueType(blocks.type.dtype, shape), A=blocks, C=taken)
    candidates = _Row(site.view(found, row.shape(k * length)), row.axis)
    values, numbers = _one_by_one(site, candidates, k, largest=largest)
    place = at("P", row.along("s"))
    block = at("C", row.along(f"{place} // {length}"))
    guarded = f"{block} if {place} >= 0 and {place} < {k * length} else 0"
    text = f"{at('Y', row.along('s'))} = ({guarded}) * {length} + {place} % {length}"
    return values, site.single([text], ValueType(DType.I64, row.shape(k)), P=numbers, C=taken)


def _in_blocks(site: NodeSite, row: _Row, length: int, last: str) -> GraphValue:
    """Rows as blocks of so many elements, the last one filled up with what comes after all others."""
    count = -(-row.extent // length)
    whole, over = row.elements, indices(row.elements.rank)
    if count * length > row.extent:
        text = f"{at('A', over)} if {over[row.axis]} < {row.extent} else {last}"
        type_ = ValueType(whole.type.dtype, row.shape(count * length))
        whole = site.single([f"{at('Y', over)} = {text}"], type_, A=whole)
    return site.view(whole, row.shape(count, length))


def _ascending(site: NodeSite, row: _Row, numbers: GraphValue) -> GraphValue:
    """Different numbers of a row in ascending order: each goes to the place of how many are smaller."""
    k = numbers.shape[row.axis]
    smaller = f"sum[r < {k}](i64({at('I', row.along('r'))} < {at('I', row.along('s'))}))"
    stages = [
        declared("R", numbers.type),
        f"{at('R', row.along('s'))} = {smaller}",
        f"{at('Y', row.along('t'))} = max[r < {k} if {at('R', row.along('r'))} == t]({at('I', row.along('r'))})",
    ]
    return site.single(stages, numbers.type, I=numbers)


def _one_by_one(site: NodeSite, row: _Row, k: int, *, largest: bool) -> Results:
    """The first `k` elements, each of them the first of those that come after the one before.

    What an element is compared by is its value and, among equal ones, its turn: its place, or for half of the elements,
    by whether they are NaN, its place behind all of these. So NaN is the largest of all.
    """
    step: tuple[GraphValue, ...] = ()
    turns = []
    for _ in range(k):
        step = _next(site, row, step, largest=largest)
        turns.append(step[1])
    turn, own = at("T", row.along("s")), at("I", row.along("s"))
    picked, first = at("A", row.along(own)), at("A", row.along("0"))
    stages = [
        f"{own} = {turn} if {turn} < {row.extent} else {turn} - {row.extent}",
        f"{at('Y', row.along('s'))} = {picked} if {own} >= 0 and {own} < {row.extent} else {first}",
    ]
    shape = row.shape(k)
    outputs = {"Y": ValueType(row.elements.type.dtype, shape), "I": ValueType(DType.I64, shape)}
    return site.program(stages, outputs, A=row.elements, T=stacked(site, turns, row.axis))


def _next(site: NodeSite, row: _Row, before: Sequence[GraphValue], *, largest: bool) -> Results:
    """The value and the turn of the first element after another, whose own `before` has; of all where that is empty."""
    dtype, over = row.elements.type.dtype, row.along()
    value, turn = at("A", row.along("r0")), "r0"
    if dtype.is_float:
        nan = f"{value} != {value}"
        value, turn = f"(inf if {nan} else {value})", f"(r0 if {nan} else r0 + {row.extent})"
        turn = turn if largest else f"(r0 + {row.extent} if {nan} else r0)"
    relation, best, worst = ("<", "max", limits(dtype)[0]) if largest else (">", "min", limits(dtype)[1])
    is_best, element = f"{value} == {at('W', over)}", value
    if before:
        last, its_turn = at("V", over), at("P", over)
        after = f"({value} {relation} {last} or ({value} == {last} and {turn} > {its_turn}))"
        is_best, element = f"{is_best} and {after}", f"{value} if {after} else {worst}"
    stages = [
        f"{at('W', over)} = {best}[r0 < {row.extent}]({element})",
        f"{at('Q', over)} = min[r0 < {row.extent}]({turn} if {is_best} else {2 * row.extent})",
    ]
    outputs = {"W": ValueType(dtype, row.shape()), "Q": ValueType(DType.I64, row.shape())}
    return site.program(stages, outputs, A=row.elements, **dict(zip("VP", before, strict=False)))
