"""Elements in order, places among them, and what running extrema are."""

from __future__ import annotations

from typing import Any

import numpy as np

from metasched.doors.ordered import search, sort_along
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite, along_rows
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.merged_blocks import SortOrder
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.node_helpers.running_reductions import Scan, log_sum_exp_scan, position_of_scan, scan_axis

Values = tuple[GraphValue | None, ...]


@aten("sort")
def sort(site: AtenSite, x: GraphValue, dim: int = -1, descending: bool = False) -> Values:
    """Equal elements stay in their order."""
    if not x.rank:
        return x, site.nodes.constant("place", np.zeros((), np.int64))
    order = SortOrder.LARGEST_FIRST if descending else SortOrder.SMALLEST_FIRST
    return sort_along(site.nodes, x, site.axis(dim, x.rank), order=order)


@aten("sort.stable")
def stable_sort(
    site: AtenSite, x: GraphValue, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Values:
    return sort(site, x, dim, descending)


@aten("median")
def median(site: AtenSite, x: GraphValue) -> GraphValue:
    flat = site.nodes.view(x, (x.type.size,))
    found = _select_rank(site, flat, 0, (x.type.size - 1) // 2, nan=True)
    return site.nodes.view(found[0], ())


@aten("median.dim")
@along_rows
def median_along(site: AtenSite, x: GraphValue, dim: int, keepdim: bool = False) -> Values:
    axis = site.axis(dim, x.rank)
    found = _select_rank(site, x, axis, (x.shape[axis] - 1) // 2, nan=True)
    return tuple(site.nodes.view(value, site.shape) for value in found)


@aten("kthvalue")
@along_rows
def kth_value(site: AtenSite, x: GraphValue, k: int, dim: int = -1, keepdim: bool = False) -> Values:
    found = _select_rank(site, x, site.axis(dim, x.rank), k - 1, nan=False)
    return tuple(site.nodes.view(value, site.shape) for value in found)


@aten("nanmedian")
def median_of_numbers(site: AtenSite, x: GraphValue) -> GraphValue:
    flat = site.nodes.view(x, (x.type.size,))
    return site.nodes.view(_middle_number(site, flat, 0)[0], ())


@aten("nanmedian.dim")
@along_rows
def median_of_numbers_along(site: AtenSite, x: GraphValue, dim: int, keepdim: bool = False) -> Values:
    found = _middle_number(site, x, site.axis(dim, x.rank))
    return tuple(site.nodes.view(value, site.shape) for value in found)


def _middle_number(site: AtenSite, x: GraphValue, axis: int) -> tuple[GraphValue, GraphValue]:
    """The lower median of each row without its NaN, which is NaN where there is nothing else, and where it is."""
    values, places = sort_along(site.nodes, x, axis)
    counts = site.nodes.expression("IsNumber", "(1 if {0} == {0} else 0)", [x], [x.type.dtype], DType.I64)
    count = site.call("ReduceSum", counts, axes=(axis,), keepdims=1)
    rank = site.nodes.expression("Rank", "max({0} - 1, 0) // 2", [count], [DType.I64], DType.I64)
    found, place = (site.call("GatherElements", part, rank, axis=axis) for part in (values, places))
    return found, place


@aten("mode")
@along_rows
def most_frequent(site: AtenSite, x: GraphValue, dim: int = -1, keepdim: bool = False) -> Values:
    """The least of the values that are there most often, and the last place of it; each NaN is by itself."""
    axis, last, dtype = site.axis(dim, x.rank), x.rank - 1, x.type.dtype
    order = [*(n for n in range(x.rank) if n != axis), axis]
    rows = site.nodes.cast(site.call("Transpose", x, perm=order), DType.U8 if dtype.is_bool else dtype)
    values, places = sort_along(site.nodes, rows, last)
    begin, end = (search(site.nodes, values, values, right=right) for right in (False, True))
    text = "({1} - {0} if {2} == {2} else 1)"
    counts = site.nodes.expression(
        "Count", text, [begin, end, values], [DType.I64, DType.I64, values.type.dtype], DType.I64
    )
    first = site.call("ArgMax", counts, axis=last, keepdims=1)
    behind = site.nodes.expression(
        "Last",
        "{0} + {1} - 1",
        [first, site.call("ReduceMax", counts, axes=(last,), keepdims=1)],
        [DType.I64] * 2,
        DType.I64,
    )
    found, place = (site.call("GatherElements", part, behind, axis=last) for part in (values, places))
    return site.nodes.view(site.nodes.cast(found, dtype), site.shape), site.nodes.view(place, site.shape)


def _select_rank(site: AtenSite, x: GraphValue, axis: int, rank: int, *, nan: bool) -> tuple[GraphValue, GraphValue]:
    """The element of a rank in each row and where it is; with `nan`, the first NaN where there is one."""
    values, places = sort_along(site.nodes, x, axis, rank + 1)
    found, place = (slice_axes(site.nodes.site("Slice"), value, {axis: (rank, 1, 1)}) for value in (values, places))
    if not nan or not x.type.dtype.is_float:
        return found, place
    is_nan = site.nodes.expression("IsNaN", "{0} != {0}", [x], [x.type.dtype], DType.BOOL)
    first = site.call("ArgMax", site.nodes.cast(is_nan, DType.U8), axis=axis, keepdims=1)
    some = site.nodes.cast(
        site.call("ReduceMax", site.nodes.cast(is_nan, DType.U8), axes=(axis,), keepdims=1), DType.BOOL
    )
    nothing = site.nodes.constant("nan", np.array(np.nan, x.type.dtype.numpy))
    return site.nodes.select(some, nothing, found), site.nodes.select(some, first, place)


@aten("cummax", "cummin")
@along_rows
def running_extremum(site: AtenSite, x: GraphValue, dim: int) -> Values:
    axis, node = site.axis(dim, x.rank), site.nodes.site("Scan")
    made = scan_axis(node, x, Scan("max" if "max" in site.name else "min", axis))
    return made, position_of_scan(node, x, made, axis) if 1 in site.used else None


@aten("logcumsumexp")
@along_rows
def running_log_sum(site: AtenSite, x: GraphValue, dim: int) -> GraphValue:
    return log_sum_exp_scan(site.nodes.site("Scan"), x, site.axis(dim, x.rank))


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def search_sorted(
    site: AtenSite,
    ordered: GraphValue,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: GraphValue | None = None,
) -> GraphValue:
    if sorter is not None:
        ordered = site.call("GatherElements", ordered, sorter, axis=ordered.rank - 1)
    wanted = site.promoted if isinstance(values, GraphValue) else ordered.type.dtype
    given = site.value(values, wanted)
    found = search(site.nodes, site.value(ordered, wanted), given, right=right or side == "right")
    return site.value(found, site.result)


@aten("bucketize.Tensor")
def bucketize(
    site: AtenSite, x: GraphValue, boundaries: GraphValue, *, out_int32: bool = False, right: bool = False
) -> GraphValue:
    return search_sorted(site, boundaries, x, right=right)
