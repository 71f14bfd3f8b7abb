"""Elements that go to places that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.indexed_places import scatter_at_places
from metasched.doors.jit.promotion import limit_of
from metasched.doors.pytorch.ops.selection import first_index_dim, places_of
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite, along_rows
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis
from metasched.graph.text import broadcast

# PyTorch's reductions as those of ScatterElements.
_REDUCTIONS = {"add": "add", "amax": "max", "amin": "min", "multiply": "mul", "prod": "mul", "sum": "add"}


@aten("scatter.src", "scatter.value", "scatter_add")
@along_rows
def scatter(site: AtenSite, x: GraphValue, dim: int, index: GraphValue, src: Any) -> GraphValue:
    """One number is put in all places; of a tensor that is larger than the indices, the first elements are."""
    return _scatter_elements(site, x, dim, index, src, "add" if "scatter_add" in site.name else "none")


@aten("scatter.reduce", "scatter.value_reduce")
@along_rows
def scatter_with(site: AtenSite, x: GraphValue, dim: int, index: GraphValue, src: Any, *, reduce: str) -> GraphValue:
    return _scatter_elements(site, x, dim, index, src, _REDUCTIONS[reduce])


def _scatter_elements(
    site: AtenSite, x: GraphValue, dim: int, index: GraphValue, src: Any, reduction: str
) -> GraphValue:
    index, updates = site.row(index), site.row(site.value(src, x.type.dtype))
    if not isinstance(src, GraphValue):
        updates = site.call("Expand", updates, site.integers(index.shape))
    parts = {n: (0, 1, extent) for n, extent in enumerate(index.shape) if extent < updates.shape[n]}
    if parts:
        updates = slice_axes(site.nodes.site("Slice"), updates, parts)
    return site.call("ScatterElements", x, index, updates, axis=site.axis(dim, x.rank), reduction=reduction)


@aten("scatter_reduce.two")
@along_rows
def scatter_reduce(
    site: AtenSite,
    x: GraphValue,
    dim: int,
    index: GraphValue,
    src: GraphValue,
    reduce: str,
    *,
    include_self: bool = True,
) -> GraphValue:
    return _scatter_reduce(site, x, dim, index, src, reduce, include_self)


@aten("index_reduce")
@along_rows
def index_reduce(
    site: AtenSite,
    x: GraphValue,
    dim: int,
    index: GraphValue,
    source: GraphValue,
    reduce: str,
    *,
    include_self: bool = True,
) -> GraphValue:
    axis, source = site.axis(dim, x.rank), site.row(source)
    along = site.nodes.view(index, [index.type.size if n == axis else 1 for n in range(x.rank)])
    whole = site.call("Expand", along, site.integers(source.shape))
    return _scatter_reduce(site, x, dim, whole, source, reduce, include_self)


def _scatter_reduce(
    site: AtenSite, x: GraphValue, dim: int, index: GraphValue, src: GraphValue, reduce: str, include_self: bool
) -> GraphValue:
    """Reduce elements with those that go to them; without themselves, where something does, if so wanted."""
    dtype = site.result
    mean = reduce == "mean"
    if mean and not dtype.is_float:
        raise Unsupported("means of integers have no form here")
    count = None
    if mean or not include_self:
        zeros = site.nodes.constant("zeros", np.zeros(x.shape, DType.I32.numpy))
        count = _scatter_elements(site, zeros, dim, index, 1, "add")
    if not include_self and count is not None:
        neutral = {"prod": 1, "amax": limit_of(dtype, largest=False), "amin": limit_of(dtype, largest=True)}
        begun = site.value(neutral.get(reduce, 0))
        x = site.nodes.select(site.nodes.expression("Met", "{0} > 0", [count], [DType.I32], DType.BOOL), begun, x)
    if not mean:
        return _scatter_elements(site, x, dim, index, src, _REDUCTIONS[reduce])
    made = _scatter_elements(site, site.nodes.cast(x, dtype.compute), dim, index, src, "add")
    return site.accumulate("{0} / ({1} + 1.0)" if include_self else "{0} / max({1}, 1.0)", made, count)


@aten("index_put", "_unsafe_index_put")
def index_put(
    site: AtenSite,
    x: GraphValue,
    given: Sequence[GraphValue | None],
    values: GraphValue,
    accumulate: bool = False,
) -> GraphValue:
    """Places by tensors of indices that are broadcast together, or by one mask, whose elements all get one value."""
    masks = [index for index in given if index is not None and index.type.dtype.is_bool and index.constant is None]
    if masks:
        return _put_masked(site, x, given, values, accumulate)
    places = places_of(site, given)
    return scatter_at_places(site.nodes, x, places, first_index_dim(places), values, "add" if accumulate else "none")


def _put_masked(
    site: AtenSite, x: GraphValue, given: Sequence[GraphValue | None], values: GraphValue, accumulate: bool
) -> GraphValue:
    found = [(n, index) for n, index in enumerate(given) if index is not None]
    (dim, mask), more = found[0], found[1:]
    behind = x.rank - dim - mask.rank
    fits = values.rank <= behind or values.type.size == 1
    if more or not fits or broadcast(x.shape[x.rank - behind :], values.shape[-behind:] if behind else ()) is None:
        raise Unsupported("a mask picks as many elements as the data say, and its values are not one for all")
    if values.rank > behind:
        values = site.nodes.view(values, ())
    wide = site.nodes.view(mask, (*mask.shape, *(1,) * behind))
    value = site.expression("{0} + {1}", x, values) if accumulate else values
    return site.nodes.select(wide, value, x)


@aten("masked_scatter")
def masked_scatter(site: AtenSite, x: GraphValue, mask: GraphValue, source: GraphValue) -> GraphValue:
    """The elements of another tensor, one after another, where a mask holds: how many held before says which."""
    if not source.type.size:
        raise Unsupported("there are no elements to put")
    x = x if x.shape == site.shape else site.call("Expand", x, site.integers(site.shape))
    size = x.type.size
    holds = site.nodes.view(site.call("Expand", mask, site.integers(x.shape)), (size,))
    counts = scan_axis(site.nodes.site("Scan"), site.nodes.cast(holds, DType.I64), Scan("sum", 0, exclusive=True))
    given = site.call("Gather", site.nodes.view(source, (source.type.size,)), counts, axis=0)
    made = site.nodes.select(holds, given, site.nodes.view(x, (size,)))
    return site.nodes.view(made, x.shape)
