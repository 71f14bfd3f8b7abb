"""Each element of a tensor once, or each slice along an axis: data decide how many there are.

Equal elements are neighbours in order, and the first of them is there the one that comes first in the tensor, as equal
elements stay in their order. So what is asked of an element is asked of its group of neighbours. Slices are elements of
a row, too: each is the number of slices that come before it, first dimension first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.counted.places_that_hold import places_that_hold
from metasched.graph.counted.views import reshape_value
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.merged_blocks import RowOrder, SortOrder
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis
from metasched.graph.node_types.sorting import sort_row
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices, place_within
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

# Slices along an axis, each of which is compared with each.
_MOST_SLICES = 4096


@dataclass(frozen=True)
class _Groups:
    """Equal elements of a row together, in some order of the groups. Arrays of i64, with room for the row each.

    Attributes:
        firsts: for each group, the place of its first element.
        sizes: for each group, how many elements it has.
        own: for each element of the row, its group.
        number: how many groups there are.

    """

    firsts: GraphValue
    sizes: GraphValue
    own: GraphValue
    number: GraphValue


@node_type("Unique", counts=True)
def unique(site: NodeSite) -> Results:
    """Each element once, where it is first, to which each belongs, and how often it is there. NaN is equal to NaN."""
    x = site.operand(0)
    given = site.attribute("axis")
    axis = None if given is None else site.axis(int(given), x.rank)
    if x.constant is not None or not x.type.size:
        known = np.zeros(x.shape, x.type.dtype.numpy) if x.constant is None else x.constant
        return tuple(map(site.constant, _group_known(site, known, axis)))
    if axis is None:
        row = reshape_value(site, x, (-1,)) if x.count is not None else site.view(x, (x.type.size,))
        return _group_slices(site, row, row, 0)
    if x.count is not None and x.count.axis != axis:
        raise Unsupported(f"data decide how many elements {x.type} has along its dimension {x.count.axis}")
    return _group_slices(site, x, _numbers_of_slices(site, x, axis), axis)


def _group_known(site: NodeSite, x: Array, axis: int | None) -> tuple[Array, ...]:
    """The outputs for elements that are known. NumPy would take each NaN of a float that it lacks for another."""
    keys = x if np.issubdtype(x.dtype, np.integer) or x.dtype == bool else x.astype(np.float64)
    elements, *numbers = np.unique(keys, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    firsts, own, sizes = (np.asarray(n, np.int64).reshape(-1) for n in numbers)
    if not site.flag("sorted", 1):
        turn = np.argsort(firsts)
        elements, firsts, sizes, own = elements.take(turn, axis or 0), firsts[turn], sizes[turn], np.argsort(turn)[own]
    return elements.astype(x.dtype), firsts, own, sizes


def _group_slices(site: NodeSite, x: GraphValue, keys: GraphValue, axis: int) -> Results:
    """The outputs for the slices of an operand along an axis, which are equal where their keys are."""
    groups = _groups_in_order(site, keys)
    if not site.flag("sorted", 1):
        groups = _order_by_first(site, groups, keys)
    over = indices(x.rank)
    picked = [place_within(f"I[{name}]", x.shape[axis]) if dim == axis else name for dim, name in enumerate(over)]
    elements = site.single([f"{at('Y', over)} = {at('A', picked)}"], x.type, A=x, I=groups.firsts)
    count = ValueCount(groups.number)
    return (
        replace(elements, count=replace(count, axis=axis)),
        replace(groups.firsts, count=count),
        replace(groups.own, count=keys.count),
        replace(groups.sizes, count=count),
    )


def _groups_in_order(site: NodeSite, keys: GraphValue) -> _Groups:
    """The groups of a row, the smallest elements first."""
    (n,) = keys.shape
    type_ = ValueType(DType.I64, (n,))
    there = None if keys.count is None else site.view(keys.count.number, ())
    number = str(n) if there is None else "S[]"
    ordered = site.cast(
        fill_absent(site, keys, RowOrder(keys.type.dtype, SortOrder.SMALLEST_FIRST).last_element),
        _comparison_type(keys.type.dtype),
    )
    row, places = sort_row(site, ordered, 0, n, SortOrder.SMALLEST_FIRST)
    other = _differ("A[s]", f"A[{place_within('s - 1', n)}]", row.type.dtype)
    begins = site.single([f"Y[s] = (s == 0 or {other}) and s < {number}"], ValueType(DType.BOOL, (n,)), A=row, S=there)
    found = places_that_hold(site, begins)
    begin, end = "Q[j]", f"(Q[{place_within('j + 1', n)}] if j + 1 < {n} else {n})"
    firsts, sizes = site.program(
        [f"Y[j] = P[{place_within(begin, n)}]", f"Z[j] = min({end}, {number}) - min({begin}, {number})"],
        {"Y": type_, "Z": type_},
        P=places,
        Q=found.places,
        S=there,
    )
    group = _number_groups(site, begins)
    own = site.single([f"Y[i] = sum[r0 < {n} if P[r0] == i](G[r0])"], type_, P=places, G=group)
    return _Groups(firsts, sizes, own, found.number)


def _order_by_first(site: NodeSite, groups: _Groups, keys: GraphValue) -> _Groups:
    """Groups in the order of their first elements."""
    there = None if keys.count is None else site.view(keys.count.number, ())
    first = _gather_row(site, groups.firsts, groups.own)
    inside = "" if there is None else " and i < S[]"
    begins = site.single([f"Y[i] = F[i] == i{inside}"], ValueType(DType.BOOL, keys.shape), F=first, S=there)
    found = places_that_hold(site, begins)
    own = _gather_row(site, _number_groups(site, begins), first)
    sizes = _gather_row(site, groups.sizes, _gather_row(site, groups.own, found.places))
    return _Groups(found.places, sizes, own, found.number)


def _gather_row(site: NodeSite, x: GraphValue, places: GraphValue) -> GraphValue:
    """For each place, the element of a row that is there."""
    return site.single(
        [f"Y[i] = A[{place_within('I[i]', x.shape[0])}]"], ValueType(DType.I64, places.shape), A=x, I=places
    )


def _number_groups(site: NodeSite, begins: GraphValue) -> GraphValue:
    """For each place of a row, the number of the group that it belongs to, of which booleans say where each begins."""
    ones = site.elementwise("i32(1) if {0} else i32(0)", begins, dtype=DType.I32)
    return site.elementwise("i64({0}) - 1", scan_axis(site, ones, Scan("sum", 0)), dtype=DType.I64)


def _numbers_of_slices(site: NodeSite, x: GraphValue, axis: int) -> GraphValue:
    """For each slice along an axis, how many come before it, which are fewer at the first element that is another."""
    n, over = x.shape[axis], indices(x.rank)
    count = None if x.count is None else replace(x.count, axis=0)
    if x.type.size == n:
        return replace(site.view(x, (n,)), count=count)
    if n > _MOST_SLICES:
        raise Unsupported(f"it compares each of {n} slices of {x.type} with each: up to {_MOST_SLICES} are taken")
    moved = (over[axis], *over[:axis], *over[axis + 1 :])
    shape = (n, *x.shape[:axis], *x.shape[axis + 1 :])
    rows = x if axis == 0 else site.single([f"{at('Y', moved)} = {at('A', over)}"], ValueType(x.type.dtype, shape), A=x)
    length = x.type.size // n
    rows = site.cast(site.view(rows, (n, length)), _comparison_type(x.type.dtype))
    dtype, place = rows.type.dtype, place_within("i64(D[i, r0])", length)
    stages = [
        declare_buffer("D", ValueType(DType.I32, (n, n))),
        f"D[i, j] = min[r0 < {length}](i32(r0) if {_differ('A[i, r0]', 'A[j, r0]', dtype)} else {length})",
        f"Y[i] = sum[r0 < {n}](i64(1) if {_is_less(f'A[r0, {place}]', f'A[i, {place}]', dtype)} else i64(0))",
    ]
    return replace(site.single(stages, ValueType(DType.I64, (n,)), A=rows), count=count)


def _comparison_type(dtype: DType) -> DType:
    """The type in which elements are compared: that of whole numbers for booleans."""
    return DType.U8 if dtype.is_bool else dtype


def _differ(one: str, other: str, dtype: DType) -> str:
    """The text of whether elements differ; NaN is equal to NaN."""
    return f"({one} != {other} and ({one} == {one} or {other} == {other}))" if dtype.is_float else f"{one} != {other}"


def _is_less(one: str, other: str, dtype: DType) -> str:
    """The text of whether an element comes before another; NaN comes last."""
    return f"({one} < {other} or ({other} != {other} and {one} == {one}))" if dtype.is_float else f"{one} < {other}"
