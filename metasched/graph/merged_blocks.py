"""Rows in order: blocks are ranked by counting, and merged in pairs, of which the elements that are wanted go on.

An element of a merged pair is found from its place: a search by halves says how many of the elements before it are the
first block's (the merge path of Odeh et al. 2012, "Merge Path - Parallel Merging Made Simple"). So each element is
computed for itself, in as many steps as the length of a block has bits, and equal elements stay in their order.
"""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.ir import ValueType
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices
from metasched.support.data_classes import dataclass

# The most elements of a row, and of a block of a longer one, that are ranked by counting.
_WHOLE, _BLOCK = 512, 128


@dataclass(frozen=True)
class Order:
    """What comes first in a row.

    Attributes:
        dtype: the type of its elements.
        largest: whether the largest come first, not the smallest. NaN counts as the largest.

    """

    dtype: DType
    largest: bool

    def before(self, other: str, one: str) -> str:
        """The text of whether an element comes before another, wherever they are; of equal elements none does."""
        relation = ">" if self.largest else "<"
        if not self.dtype.is_float:
            return f"{other} {relation} {one}"
        nan, number = (other, one) if self.largest else (one, other)
        return f"({other} {relation} {one} or ({nan} != {nan} and {number} == {number}))"


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
        """That of the elements, with other dimensions in place of blocks and elements."""
        shape = self.elements.shape
        return (*shape[: self.axis], *extents, *shape[self.axis + 2 :])

    def at(self, name: str, *inside: str) -> str:
        """An element of an array, with these subscripts for blocks and elements."""
        return _along(name, self.elements.rank - 2, self.axis, *inside)


def _along(name: str, around: int, axis: int, *inside: str) -> str:
    """An element of an array, with these subscripts among those of the other dimensions."""
    over = indices(around)
    return at(name, [*over[:axis], *inside, *over[axis:]])


def sorted_row(site: NodeSite, x: GraphValue, axis: int, k: int, *, largest: bool) -> tuple[GraphValue, GraphValue]:
    """The first `k` elements along an axis, and their places, i64; of equal ones that of the lower place is first."""
    order = Order(x.type.dtype, largest)
    blocks = _ranked(site, x, axis, k, order)
    while blocks.count > 1:
        blocks = _merged(site, blocks, k, order)
    shape = blocks.shape(k)
    return site.view(blocks.elements, shape), site.cast(site.view(blocks.places, shape), DType.I64)


def _ranked(site: NodeSite, x: GraphValue, axis: int, k: int, order: Order) -> _Blocks:
    """The first elements of each block, by their ranks; a power of two of blocks, so that each has another one."""
    extent, around = x.shape[axis], x.rank - 1
    count = 1 if extent <= _WHOLE else 1 << ((extent - 1) // _BLOCK).bit_length()
    size = -(-extent // count)

    def shape(*extents: int) -> tuple[int, ...]:
        return (*x.shape[:axis], *extents, *x.shape[axis + 1 :])

    one, other = (_along("A", around, axis, f"j * {size} + {name}") for name in ("u", "r0"))
    inside, itself = (f"j * {size} + {name} < {extent}" for name in ("r0", "u"))
    first = f"({order.before(other, one)} if r0 >= u else not {order.before(one, other)})"
    ranks, own = _along("R", around, axis, "j", "r0"), _along("K", around, axis, "j", "s")
    rank = f"sum[r0 < {size} if {itself} and {inside}](i32(1) if {first} else i32(0))"
    place = f"sum[r0 < {size} if {inside} and {ranks} == i32(s)](i32(j * {size} + r0))"
    inputs = _along("A", around, axis, own), _along("A", around, axis, "0")
    stages = [
        declared("R", ValueType(DType.I32, shape(count, size))),
        f"{_along('R', around, axis, 'j', 'u')} = {rank}",
        f"{own} = {place}",
        f"{_along('Y', around, axis, 'j', 's')} = {inputs[0]} if {_inside(own, extent)} else {inputs[1]}",
    ]
    made = shape(count, min(k, size))
    outputs = {"Y": ValueType(x.type.dtype, made), "K": ValueType(DType.I32, made)}
    elements, places = site.program(stages, outputs, A=x)
    return _Blocks(elements, places, axis, size, extent)


def _merged(site: NodeSite, blocks: _Blocks, k: int, order: Order) -> _Blocks:
    """Pairs of blocks as one each, of which the first elements go on."""
    pairs, length = blocks.count // 2, min(k, 2 * blocks.whole)
    shape = blocks.shape(pairs, length)
    numbers = ValueType(DType.I32, shape)
    stages, taken = [], "0"
    step = 1 << (min(blocks.length, length - 1).bit_length() - 1)
    while step:
        name, more = f"N{step}", f"{taken} + {step}"
        chosen = _chosen(blocks, order, (f"{more} - 1", f"s - ({more})"), (more, taken))
        stages += [declared(name, numbers), f"{blocks.at(name, 'p', 's')} = i32{chosen}"]
        taken, step = f"i64({blocks.at(name, 'p', 's')})", step // 2
    chosen = _chosen(blocks, order, (taken, f"s - {taken}"), (taken, f"{blocks.length} + s - {taken}"))
    stages += [declared("F", numbers), f"{blocks.at('F', 'p', 's')} = i32{chosen}"]
    own = f"i64({blocks.at('F', 'p', 's')})"
    for made, array in (("Y", "A"), ("J", "K")):
        first, second = blocks.at(array, "2 * p", own), blocks.at(array, "2 * p + 1", f"{own} - {blocks.length}")
        rest = f"{second} if {_inside(f'{own} - {blocks.length}', blocks.length)} else {blocks.at(array, '2 * p', '0')}"
        stages.append(f"{blocks.at(made, 'p', 's')} = {first} if {_inside(own, blocks.length)} else {rest}")
    outputs = {"Y": ValueType(order.dtype, shape), "J": numbers}
    elements, places = site.program(stages, outputs, A=blocks.elements, K=blocks.places)
    return _Blocks(elements, places, blocks.axis, 2 * blocks.whole, blocks.extent)


def _chosen(blocks: _Blocks, order: Order, places: tuple[str, str], either: tuple[str, str]) -> str:
    """The first of two texts where an element of a pair's first block comes ahead of one of its second, or the other.

    `places` are theirs in the blocks. One that is not there comes after one that is.
    """
    (first, second), (mine, other) = places, either
    rest = f"{blocks.extent} - (2 * p + 1) * {blocks.whole}"
    both = f"{_inside(first, blocks.length)} and {_inside(second, blocks.length)} and {second} < {rest}"
    ahead = order.before(blocks.at("A", "2 * p + 1", second), blocks.at("A", "2 * p", first))
    gone = f"{second} >= {blocks.length} or {second} >= {rest}"
    alone = f"{other} if {second} < 0 else {mine} if {gone} else {other}"
    return f"(({other} if {ahead} else {mine}) if {both} else {alone})"


def _inside(place: str, extent: int) -> str:
    return f"{place} >= 0 and {place} < {extent}"
