"""The largest elements of each row, in order.

There is no order among iterations to sort by: the rank of an element is how many come before it, which takes n * n
comparisons of n elements. Longer rows are ranked in blocks, which are merged in pairs by a network of exchanges
(`node_helpers/exchanged_rows.py`), or by searches where elements do not fit in its numbers
(`node_helpers/merged_blocks.py`). Where fewer elements are wanted they are looked for in few blocks of the row
(`node_helpers/selected_elements.py`), or picked one by one: each step looks for the first of those that come after the
one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.counted.size_arithmetic import Size, number_of, set_count, sizes_of, sizes_of_input
from metasched.graph.errors import Unsupported
from metasched.graph.loops.elements_above import divide_rows, selection_cost
from metasched.graph.node_helpers.exchanged_rows import (
    are_small,
    can_exchange,
    exchange_cost,
    fits_beside_place,
    pick_by_numbers,
    sort_by_exchanges,
    sort_small,
)
from metasched.graph.node_helpers.merged_blocks import RowOrder, SortOrder, merge_row
from metasched.graph.node_helpers.moved_elements import stack_values
from metasched.graph.node_helpers.selected_elements import OF_A_KERNEL, OF_AN_ELEMENT, cheapest_levels, select_first
from metasched.graph.node_types.branches import build_branch
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices, limits
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

# What an element of a longer row takes at most until all are in order, in comparisons.
_SORTED_ELEMENT_COST = 512
# Rows up to here are ranked by counting, in one kernel.
_RANKED = 64
# From so many rows on, it pays to make numbers of elements and their places to pick some by.
_ROWS_OF_NUMBERS = 8


@dataclass(frozen=True)
class _Row:
    """The elements of an operand along an axis."""

    elements: GraphValue
    axis: int

    @property
    def extent(self) -> int:
        return self.elements.shape[self.axis]

    def shape(self, *extents: int) -> tuple[int, ...]:
        """The elements' shape with other dimensions in place of the row's."""
        shape = self.elements.shape
        return (*shape[: self.axis], *extents, *shape[self.axis + 1 :])

    def subscripts(self, *names: str) -> list[str]:
        """Subscripts, with these for the row."""
        over = indices(self.elements.rank)
        return [*over[: self.axis], *names, *over[self.axis + 1 :]]


@node_type("TopK", counts=True)
def top_k(site: NodeSite) -> tuple[GraphValue | None, ...]:
    """The first elements of each row, as many as are asked for; of as many as data decide, those that are there."""
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    (k,) = sizes_of_input(site, 1, "k")
    if x.count is not None and x.count.axis == axis:
        return _select_counted(site, x, axis, k)
    if not isinstance(k, DataSize):
        return run_on_rows(_select_first, site)
    if x.count is not None:
        raise Unsupported(f"data decide how many elements {x.type} has along its dimension {x.count.axis}")
    return _select_counted(site, x, axis, k)


def _select_counted(site: NodeSite, x: GraphValue, axis: int, k: Size) -> Results:
    """The first elements of rows of which data decide how many are there: as many as are asked for, or all of them.
    Elements that are not there come last.
    """
    there, room = sizes_of(x)[axis], x.shape[axis]
    asked = k.most if isinstance(k, DataSize) else k
    if not isinstance(k, DataSize) and not 0 <= k <= room:
        raise Unsupported(f"it takes {k} of at most {room} elements")
    most = min(asked, room)
    taken = site.elementwise(f"min(min({{0}}, {{1}}), {most})", *(number_of(site, size) for size in (k, there)))
    inputs = (
        fill_absent(site, x, RowOrder(x.type.dtype, _order(site)).last_element),
        site.constant(np.array([most], np.int64)),
    )
    made = _select_first(replace(site, inputs=inputs))
    return tuple(set_count(site, value, ValueCount(taken, axis)) for value in made)


def _order(site: NodeSite) -> SortOrder:
    return SortOrder.LARGEST_FIRST if site.flag("largest", 1) else SortOrder.SMALLEST_FIRST


def _select_first(site: NodeSite) -> Results:
    """A known number of elements of each row."""
    x = site.operand(0)
    row = _Row(x, site.axis(int(site.attribute("axis", -1)), x.rank))
    k, order = site.integers(1, "k")[0], _order(site)
    if not 0 <= k <= row.extent:
        raise Unsupported(f"it takes {k} of {row.extent} elements")
    if k == 0:
        return tuple(site.constant(np.empty(row.shape(0), dtype.numpy)) for dtype in (x.type.dtype, DType.I64))
    elements = prod(row.shape()) * row.extent
    ranked = _sort_cost(row)
    picked = k * (OF_A_KERNEL + OF_AN_ELEMENT * elements)
    levels = cheapest_levels(row.extent, k, prod(row.shape()))
    least = min([ranked, picked, *([levels.cost] if levels is not None else [])])

    def select() -> Results:
        if levels is not None and levels.cost < min(picked, ranked):
            return select_first(site, x, row.axis, k, levels, order)
        if picked < ranked:
            return _pick_one_by_one(site, row, k, order)
        return sort_row(site, x, row.axis, k, order)

    may_divide = not x.type.dtype.is_bool and row.axis == x.rank - 1 and site.builder.is_alone
    if may_divide and selection_cost(row.extent, k, prod(row.shape())) < least:
        return _select_above(site, x, k, order, select)
    return select()


def sort_row(site: NodeSite, x: GraphValue, axis: int, k: int, order: SortOrder) -> Results:
    """The first `k` elements along an axis, and their places, i64; of equal ones that of the lower place is first."""
    row_order = RowOrder(x.type.dtype, order)
    if not k or not x.type.size or not _is_exchanged(x, axis):
        return merge_row(site, x, axis, k, row_order)
    if fits_beside_place(x.type.dtype, x.shape[axis]) or not site.builder.is_alone:
        return sort_by_exchanges(site, x, axis, k, row_order)

    def small(_: Sequence[GraphValue], __: str) -> list[GraphValue]:
        return list(sort_small(site, x, axis, k, row_order))

    def others(_: Sequence[GraphValue], __: str) -> list[GraphValue]:
        return list(sort_by_exchanges(site, x, axis, k, row_order))

    return build_branch(site, are_small(site, x), [small, others])


def _is_exchanged(x: GraphValue, axis: int) -> bool:
    return x.shape[axis] > _RANKED and can_exchange(x.type.dtype, x.shape[axis])


def _sort_cost(row: _Row) -> int:
    """What it takes to put all elements in order, in comparisons."""
    rows = prod(row.shape())
    if _is_exchanged(row.elements, row.axis):
        return exchange_cost(row.extent, rows)
    return OF_A_KERNEL + rows * row.extent * min(row.extent, _SORTED_ELEMENT_COST)


def _select_above(site: NodeSite, x: GraphValue, k: int, order: SortOrder, otherwise: Callable[[], Results]) -> Results:
    """The first `k` elements of rows along the last dimension: of those above a number, where one divides each row."""
    divided = divide_rows(site, x, k, order)

    def few(_: Sequence[GraphValue], __: str) -> list[GraphValue]:
        return [site.view(value, (*x.shape[:-1], k)) for value in divided.select_above(site)]

    def others(_: Sequence[GraphValue], __: str) -> list[GraphValue]:
        return list(otherwise())

    return build_branch(site, divided.is_divided, [few, others])


def _pick_one_by_one(site: NodeSite, row: _Row, k: int, order: SortOrder) -> Results:
    """The first `k` elements, a kernel for each."""
    x = row.elements
    if fits_beside_place(x.type.dtype, row.extent) and prod(row.shape()) >= _ROWS_OF_NUMBERS:
        return pick_by_numbers(site, x, row.axis, k, RowOrder(x.type.dtype, order))
    return _select_one_by_one(site, row, k, order)


def _select_one_by_one(site: NodeSite, row: _Row, k: int, order: SortOrder) -> Results:
    """The first `k` elements, each of them the first of those that come after the one before.

    What an element is compared by is its value and, among equal ones, its turn: its place, or for half of the elements,
    by whether they are NaN, its place behind all of these. So NaN is the largest of all.
    """
    step: tuple[GraphValue, ...] = ()
    turns = []
    for _ in range(k):
        step = _select_next(site, row, step, order)
        turns.append(step[1])
    turn, own = at("T", row.subscripts("s")), at("I", row.subscripts("s"))
    picked, first = at("A", row.subscripts(own)), at("A", row.subscripts("0"))
    stages = [
        f"{own} = {turn} if {turn} < {row.extent} else {turn} - {row.extent}",
        f"{at('Y', row.subscripts('s'))} = {picked} if {own} >= 0 and {own} < {row.extent} else {first}",
    ]
    shape = row.shape(k)
    outputs = {"Y": ValueType(row.elements.type.dtype, shape), "I": ValueType(DType.I64, shape)}
    return site.program(stages, outputs, A=row.elements, T=stack_values(site, turns, row.axis))


def _select_next(site: NodeSite, row: _Row, before: Sequence[GraphValue], order: SortOrder) -> Results:
    """The value and the turn of the first element after another, whose own `before` has; of all where that is empty."""
    dtype, over, largest = row.elements.type.dtype, row.subscripts(), order is SortOrder.LARGEST_FIRST
    value, turn = at("A", row.subscripts("r0")), "r0"
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
