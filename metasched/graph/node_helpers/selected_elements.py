"""The first elements of long rows, in order: looked for in the blocks whose own first elements come first.

An element that is among the first `k` of a row lies in one of the `k` blocks whose first elements come first, where of
equal ones that of the lower place does. So of a row in blocks, and of the first elements of these in blocks again,
the few at the top are ranked by counting, and below them those of the blocks that were taken, again and again: a
few kernels for each of these levels, however many elements are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.merged_blocks import RowOrder, SortOrder
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices, place_within
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# What a kernel takes by itself, and an element that is looked at for the first one of some, in comparisons of ranks.
OF_A_KERNEL, OF_AN_ELEMENT = 1 << 14, 2
# Longer blocks are looked through more slowly than in two levels.
_BLOCKS = (2, 4)
# Places of elements, and those behind them, are i32.
_LONGEST_ROW = 1 << 29


@dataclass(frozen=True)
class Levels:
    """How a row is looked at.

    Attributes:
        block: how many elements of a level each one of the level above stands for.
        extents: how many elements each level has: the row itself, and the first elements of its blocks, up to the top.
        cost: what all rows take, in comparisons.

    """

    block: int
    extents: tuple[int, ...]
    cost: int


def cheapest_levels(extent: int, k: int, rows: int) -> Levels | None:
    """The levels in which the first `k` elements of `rows` rows take least; None where all blocks would be taken."""
    found = (one for block in _BLOCKS for one in _levels(extent, k, rows, block))
    return min(found, key=lambda one: one.cost, default=None)


def _levels(extent: int, k: int, rows: int, block: int) -> Iterator[Levels]:
    extents: tuple[int, ...] = (extent,)
    cost = 2 * OF_A_KERNEL
    while (above := -(-extents[-1] // block)) > k and extent <= _LONGEST_ROW:
        cost += 2 * OF_A_KERNEL + rows * (OF_AN_ELEMENT * extents[-1] + rank_cost(k * block, k))
        extents = (*extents, above)
        yield Levels(block, extents, cost + rows * rank_cost(above, k))


def rank_cost(count: int, k: int) -> int:
    """The cost of ranking so many elements and finding those of the first ranks."""
    return count * (count + k)


def select_among(
    site: NodeSite, x: GraphValue, axis: int, k: int, places: GraphValue, order: SortOrder
) -> tuple[GraphValue, GraphValue]:
    """As `select_first`, among the elements at these places alone, i64; behind a row's end there is none."""
    selection = _Selection(site, axis, k, 1, RowOrder(x.type.dtype, order))
    return selection.elements(x, selection.first_places(x, site.cast(places, DType.I32)))


def select_first(
    site: NodeSite, x: GraphValue, axis: int, k: int, levels: Levels, order: SortOrder
) -> tuple[GraphValue, GraphValue]:
    """The first `k` elements along an axis, and their places, i64; of equal ones that of the lower place is first."""
    selection = _Selection(site, axis, k, levels.block, RowOrder(x.type.dtype, order))
    heads = [x]
    for extent in levels.extents[1:]:
        heads.append(selection.heads(heads[-1], extent))
    places = selection.first_places(heads.pop())
    while heads:
        places = selection.first_places(heads.pop(), places)
    return selection.elements(x, places)


@dataclass(frozen=True)
class _Selection:
    """What is looked for along a dimension of an array, and of the first elements of its blocks."""

    site: NodeSite
    axis: int
    k: int
    block: int
    order: RowOrder

    def heads(self, x: GraphValue, count: int) -> GraphValue:
        """The first element of each block."""
        made = ValueType(x.type.dtype, self._shape(x, count))
        result = self._element_along(x, "Y", "j")
        if self.order.largest or not x.type.dtype.is_float:
            best = "max" if self.order.largest else "min"
            return self.site.single(
                [f"{result} = {best}[r0 < {self.block}]({self._block_element(x, 'r0')})"], made, A=x
            )
        # The minimum of a block is NaN where any element is, but its first element only where all are.
        stages, best = list[str](), self._block_element(x, "0")
        for n in range(1, self.block):
            name = "Y" if n == self.block - 1 else f"W{n}"
            one = self._block_element(x, str(n))
            stages += [] if name == "Y" else [declare_buffer(name, made)]
            stages.append(
                f"{self._element_along(x, name, 'j')} = {best} if {self.order.no_later(best, one)} else {one}"
            )
            best = self._element_along(x, name, "j")
        return self.site.single(stages, made, A=x)

    def _block_element(self, x: GraphValue, place: str) -> str:
        """An element of a block, or the row's last one for those behind its end: it is in the last block anyway."""
        return self._element_along(x, "A", place_within(f"j * {self.block} + {place}", x.shape[self.axis]))

    def first_places(self, x: GraphValue, blocks: GraphValue | None = None) -> GraphValue:
        """The places of the first elements, in order, i32: of all, or of those in the blocks at these places."""
        if blocks is None:
            return self._rank_places(x)
        numbers = ValueType(DType.I32, self._shape(x, blocks.shape[self.axis] * self.block))
        place = self._element_along(x, "P", "u")
        stages = [
            f"{place} = {self._element_along(x, 'C', f'u // {self.block}')} * {self.block} + i32(u % {self.block})",
            f"{self._element_along(x, 'E', 'u')} = {self._there(x, f'i64({place})')}",
        ]
        outputs = {"P": numbers, "E": replace(numbers, dtype=x.type.dtype)}
        places, elements = self.site.program(stages, outputs, A=x, C=blocks)
        return self._rank_places(elements, places)

    def _rank_places(self, x: GraphValue, places: GraphValue | None = None) -> GraphValue:
        """The places of the first of some elements, which are at these places, and by default side by side.

        What an element is compared by is its value and, among equal ones, its turn: its place, or for half of the
        elements, by whether they are NaN, its place behind all others. It is one task at all levels below the top.
        """
        count = x.shape[self.axis]
        numbers = ValueType(DType.I32, x.shape)
        value, turn, rank = (self._element_along(x, name, "u") for name in "VTR")
        other, its_turn, its_rank = (self._element_along(x, name, "r0") for name in "VTR")
        place, its_place = (
            ("i32(u)", "i32(r0)") if places is None else (self._element_along(x, "P", n) for n in ("u", "r0"))
        )
        relation = ">" if self.order.largest else "<"
        before = f"{other} {relation} {value} or {other} == {value} and {its_turn} < {turn}"
        stages = [
            declare_buffer("T", numbers),
            declare_buffer("R", numbers),
            declare_buffer("V", replace(numbers, dtype=x.type.dtype.compute)),
            *self._key_stages(x, place),
            f"{rank} = sum[r0 < {count}](i32(1) if {before} else i32(0))",
            f"{self._element_along(x, 'Y', 's')} = sum[r0 < {count} if {its_rank} == i32(s)]({its_place})",
        ]
        arrays = {"A": x} if places is None else {"A": x, "P": places}
        return self.site.single(stages, ValueType(DType.I32, self._shape(x, self.k)), **arrays)

    def _key_stages(self, x: GraphValue, place: str) -> list[str]:
        """The stages of an element's value and turn."""
        own, value, turn = (self._element_along(x, name, "u") for name in "AVT")
        dtype = x.type.dtype
        if not dtype.is_float:
            return [f"{value} = {own}", f"{turn} = {place}"]
        behind = f"{place} + {_LONGEST_ROW}"
        of_nan, of_others = (place, behind) if self.order.largest else (behind, place)
        return [
            f"{value} = {_number(own, dtype.compute)}",
            f"{turn} = {of_nan} if {own} != {own} else {of_others}",
        ]

    def elements(self, x: GraphValue, places: GraphValue) -> tuple[GraphValue, GraphValue]:
        """Elements at places of the row, and the places, i64."""
        place = self._element_along(x, "P", "s")
        element = self._element_along(x, "A", place_within(f"i64({place})", x.shape[self.axis]))
        stages = [
            f"{self._element_along(x, 'Y', 's')} = {element}",
            f"{self._element_along(x, 'I', 's')} = i64({place})",
        ]
        shape = self._shape(x, self.k)
        outputs = {"Y": ValueType(x.type.dtype, shape), "I": ValueType(DType.I64, shape)}
        values, numbers = self.site.program(stages, outputs, A=x, P=places)
        return values, numbers

    def _there(self, x: GraphValue, place: str) -> str:
        """The element at a place; behind the end of the row, what comes after all others."""
        extent = x.shape[self.axis]
        element = self._element_along(x, "A", place_within(place, extent))
        return f"({element} if {place} < {extent} else {self.order.last_element})"

    def _element_along(self, x: GraphValue, name: str, inside: str) -> str:
        """An element of an array, with this subscript along the dimension."""
        over = indices(x.rank)
        return at(name, (*over[: self.axis], inside, *over[self.axis + 1 :]))

    def _shape(self, x: GraphValue, extent: int) -> tuple[int, ...]:
        return (*x.shape[: self.axis], extent, *x.shape[self.axis + 1 :])


def _number(element: str, dtype: DType) -> str:
    """An element in this type, and infinity for NaN."""
    return f"{dtype}(inf) if {element} != {element} else {dtype}({element})"
