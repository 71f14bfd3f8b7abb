"""Rows in order: blocks are ranked by counting, and merged in pairs, of which the elements that are wanted go on.

An element of a merged pair is found from its place: a search says how many of the elements before it are the first
block's (the merge path of Odeh et al. 2012, "Merge Path - Parallel Merging Made Simple"). So each element is computed
for itself, in a step for every bit of a block's length, and equal elements stay in their order. Steps are programs of
their own: one of all steps takes seconds to schedule.
"""

from __future__ import annotations

from enum import Enum

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices, limits, place_within
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# The most elements of a row, and of a block of a longer one, that are ranked by counting.
_WHOLE, _BLOCK = 512, 128


class SortOrder(Enum):
    """What comes first in a row. NaN counts as the largest."""

    SMALLEST_FIRST = "smallest first"
    LARGEST_FIRST = "largest first"


@dataclass(frozen=True)
class RowOrder:
    """The order of a row of elements of a type, as text that compares them."""

    dtype: DType
    order: SortOrder

    @property
    def largest(self) -> bool:
        return self.order is SortOrder.LARGEST_FIRST

    def no_later(self, one: str, other: str) -> str:
        """The text of whether an element comes ahead of another or is equal to it."""
        if not self.dtype.is_float:
            return f"{one} {'>=' if self.largest else '<='} {other}"
        return f"({other} <= {one} or {one} != {one})" if self.largest else f"({one} <= {other} or {other} != {other})"

    @property
    def last_element(self) -> str:
        """The text of an element that comes after all others that are ahead of it in the row."""
        lowest, highest = limits(self.dtype)
        if not self.dtype.is_float:
            return lowest if self.largest else highest
        return f"{self.dtype}({lowest if self.largest else '(inf - inf)'})"


@dataclass(frozen=True)
class _Blocks:
    """Blocks of a row, the first elements of each in order, and where these were in the row.

    What is behind the end of the row means nothing.

    Attributes:
        elements: of the operand's shape, but that blocks and the elements of each are in place of the row.
        places: of the same shape, i32.
        axis: the dimension of the blocks.
        whole: how many elements of the row a block stands for.
        extent: the elements of the row.

    """

    elements: GraphValue
    places: GraphValue
    axis: int
    whole: int
    extent: int

    @property
    def count(self) -> int:
        return self.elements.shape[self.axis]

    @property
    def length(self) -> int:
        return self.elements.shape[self.axis + 1]

    def shape(self, *extents: int) -> tuple[int, ...]:
        """The elements' shape with other dimensions in place of blocks and elements."""
        shape = self.elements.shape
        return (*shape[: self.axis], *extents, *shape[self.axis + 2 :])

    def element(self, name: str, *inside: str) -> str:
        """An element of an array, with these subscripts for blocks and elements."""
        return _element_along(name, self.elements.rank - 2, self.axis, *inside)


def _element_along(name: str, around: int, axis: int, *inside: str) -> str:
    """An element of an array, with these subscripts among those of the other dimensions."""
    over = indices(around)
    return at(name, [*over[:axis], *inside, *over[axis:]])


def merge_row(site: NodeSite, x: GraphValue, axis: int, k: int, row_order: RowOrder) -> tuple[GraphValue, GraphValue]:
    """The first `k` elements along an axis, and their places, i64; of equal ones that of the lower place is first."""
    blocks = _rank_blocks(site, x, axis, k, row_order)
    while blocks.count > 1:
        blocks = _merge_pairs(site, blocks, k, row_order)
    shape = blocks.shape(k)
    return site.view(blocks.elements, shape), site.cast(site.view(blocks.places, shape), DType.I64)


def _rank_blocks(site: NodeSite, x: GraphValue, axis: int, k: int, order: RowOrder) -> _Blocks:
    """The first elements of each block, by their ranks; a power of two of blocks, so that each has another one."""
    extent, around = x.shape[axis], x.rank - 1
    count = 1 if extent <= _WHOLE else 1 << ((extent - 1) // _BLOCK).bit_length()
    size = -(-extent // count)

    def shape(*extents: int) -> tuple[int, ...]:
        return (*x.shape[:axis], *extents, *x.shape[axis + 1 :])

    one, other = (_element_along("A", around, axis, f"j * {size} + {name}") for name in ("u", "r0"))
    inside, itself = (f"j * {size} + {name} < {extent}" for name in ("r0", "u"))
    first = f"({order.no_later(other, one)} if r0 < u else not {order.no_later(one, other)})"
    ranks, own = _element_along("R", around, axis, "j", "r0"), _element_along("K", around, axis, "j", "s")
    rank = f"sum[r0 < {size} if {itself} and {inside}](i32(1) if {first} else i32(0))"
    place = f"sum[r0 < {size} if {inside} and {ranks} == i32(s)](i32(j * {size} + r0))"
    element = _element_along("A", around, axis, place_within(own, extent))
    stages = [
        declare_buffer("R", ValueType(DType.I32, shape(count, size))),
        f"{_element_along('R', around, axis, 'j', 'u')} = {rank}",
        f"{own} = {place}",
        f"{_element_along('Y', around, axis, 'j', 's')} = {element}",
    ]
    made = shape(count, min(k, size))
    outputs = {"Y": ValueType(x.type.dtype, made), "K": ValueType(DType.I32, made)}
    elements, places = site.program(stages, outputs, A=x)
    return _Blocks(elements, places, axis, size, extent)


def _merge_pairs(site: NodeSite, blocks: _Blocks, k: int, order: RowOrder) -> _Blocks:
    """Pairs of blocks as one each, of which the first elements go on."""
    pairs, length = blocks.count // 2, min(k, 2 * blocks.whole)
    numbers = ValueType(DType.I32, blocks.shape(pairs, length))
    step = 1 << (min(blocks.length, length - 1).bit_length() - 1)
    found = _count_before(site, blocks, order, numbers, step)
    taken = f"i64({blocks.element('N', 'p', 's')})"
    ahead, second = _ahead(blocks, order, taken, f"s - {taken}"), f"{blocks.length} + s - {taken}"
    stages = [declare_buffer("F", numbers), f"{blocks.element('F', 'p', 's')} = i32({taken} if {ahead} else {second})"]
    own = f"i64({blocks.element('F', 'p', 's')})"
    for made, array in (("Y", "A"), ("J", "K")):
        first = blocks.element(array, "2 * p", place_within(own, blocks.length))
        last = blocks.element(array, "2 * p + 1", place_within(f"{own} - {blocks.length}", blocks.length))
        stages.append(f"{blocks.element(made, 'p', 's')} = {first} if {own} < {blocks.length} else {last}")
    outputs = {"Y": ValueType(order.dtype, numbers.shape), "J": numbers}
    elements, places = site.program(stages, outputs, A=blocks.elements, K=blocks.places, N=found)
    return _Blocks(elements, places, blocks.axis, 2 * blocks.whole, blocks.extent)


def _count_before(site: NodeSite, blocks: _Blocks, order: RowOrder, numbers: ValueType, step: int) -> GraphValue:
    """How many of the elements before each one of a pair are of its first block, by halves: first `step` or none.

    All steps after the first are one task, as how many elements they try is data.
    """
    outputs = {"Y": numbers, "V": ValueType(DType.I64, (1,))}

    def stages(taken: str, more: str, after: str) -> list[str]:
        ahead = _ahead(blocks, order, f"{more} - 1", f"s - ({more})")
        return [f"{blocks.element('Y', 'p', 's')} = i32({more} if {ahead} else {taken})", f"V[z] = {after}"]

    found, tried = site.program(stages("0", str(step), f"i64({step // 2})"), outputs, A=blocks.elements)
    taken = f"i64({blocks.element('N', 'p', 's')})"
    halved = stages(taken, f"{taken} + W[0]", "W[z] // 2")
    for _ in range(step.bit_length() - 1):
        found, tried = site.program(halved, outputs, A=blocks.elements, N=found, W=tried)
    return found


def _ahead(blocks: _Blocks, order: RowOrder, first: str, second: str) -> str:
    """The text of whether an element of a pair's first block comes ahead of one of its second, by their places there.

    One that is not there comes after one that is, and nothing comes ahead of what would be before the second block.
    """
    rest = f"{blocks.extent} - (2 * p + 1) * {blocks.whole}"
    one = blocks.element("A", "2 * p", place_within(first, blocks.length))
    other = blocks.element("A", "2 * p + 1", place_within(second, blocks.length))
    gone = f"{second} >= {blocks.length} or {second} >= {rest}"
    return f"{second} >= 0 and ({gone} or {first} < {blocks.length} and {order.no_later(one, other)})"
