"""How many elements lie in each of some bins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metasched.doors.ordered import search, sum_by_place
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import real


@aten("histc")
def histogram_of_range(site: AtenSite, x: GraphValue, bins: int = 100, min: float = 0, max: float = 0) -> GraphValue:  # noqa: A002
    """Elements that are outside count nowhere."""
    flat = site.nodes.view(x, (x.type.size,))
    low, high = _ends(site, flat, None if min == max else (min, max), margin=1.0)
    place = f"i64(min(({{0}} - {{1}}) * {bins}.0 / ({{2}} - {{1}}), {bins - 1}.0))"
    text = f"({place} if {{0}} >= {{1}} and {{0}} <= {{2}} else i64({bins}))"
    places = site.nodes.expression("Bin", text, [flat, low, high], [x.type.dtype] * 3, DType.I64, divides=True)
    return sum_by_place(site.nodes, places, site.nodes.constant("one", np.ones(1, x.type.dtype.numpy)), bins)


@aten("histogram.bin_ct")
def histogram(
    site: AtenSite,
    x: GraphValue,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,  # noqa: A002 -- PyTorch's name
    weight: GraphValue | None = None,
    density: bool = False,
) -> tuple[GraphValue, GraphValue]:
    """Edges are counted from the nearer end."""
    low, high = _ends(site, site.nodes.view(x, (x.type.size,)), range, margin=0.5)
    number = site.nodes.constant("number", np.arange(bins + 1, dtype=x.type.dtype.numpy))
    step = f"(({{1}} - {{0}}) / {real(bins)})"
    half = real((bins + 1) // 2)
    edges = site.expression(
        f"({{0}} + {step} * {{2}} if {{2}} < {half} else {{1}} - {step} * ({real(bins)} - {{2}}))", low, high, number
    )
    return _count_between(site, x, edges, weight, density=density), edges


@aten("histogram.bins_tensor")
def histogram_between(
    site: AtenSite, x: GraphValue, bins: GraphValue, *, weight: GraphValue | None = None, density: bool = False
) -> tuple[GraphValue, GraphValue]:
    return _count_between(site, x, bins, weight, density=density), bins


def _ends(
    site: AtenSite, flat: GraphValue, given: Sequence[float] | None, *, margin: float
) -> tuple[GraphValue, GraphValue]:
    """The ends of all bins: those of the data, where none are given, and further by a margin where these are equal."""
    if given is not None:
        if not all(map(math.isfinite, given)):
            raise Unsupported(f"bins from {given[0]} to {given[1]} are an error of PyTorch's")
        low, high = (site.value(end) for end in given)
    else:
        low, high = (site.call(op, flat, axes=(0,), keepdims=0) for op in ("ReduceMin", "ReduceMax"))
    wider = [
        site.expression(f"({{0}} {sign} {margin} if {{0}} == {{1}} else {{0}})", end, other)
        for sign, end, other in (("-", low, high), ("+", high, low))
    ]
    return wider[0], wider[1]


def _count_between(
    site: AtenSite, x: GraphValue, edges: GraphValue, weight: GraphValue | None, *, density: bool
) -> GraphValue:
    """The last bin has both of its ends."""
    count, size = edges.shape[0] - 1, x.type.size
    flat = site.nodes.view(x, (size,))
    last = site.nodes.constant("last", np.array(count))
    end = site.call("Gather", edges, last, axis=0)
    text = f"({count - 1} if {{1}} == {{2}} else {{0}} - 1)"
    operands = [search(site.nodes, edges, flat, right=True), flat, end]
    places = site.nodes.expression("Bin", text, operands, [DType.I64, x.type.dtype, x.type.dtype], DType.I64)
    weights = site.nodes.constant("one", np.ones(1, x.type.dtype.numpy)) if weight is None else weight
    counts = sum_by_place(site.nodes, places, weights, count)
    if not density:
        return counts
    total = site.call("ReduceSum", counts, axes=(0,), keepdims=0)
    begins, ends = (
        site.call("Gather", edges, site.nodes.constant("edge", np.arange(count) + n), axis=0) for n in (0, 1)
    )
    return site.expression("{0} / ({1} * ({3} - {2}))", counts, total, begins, ends, divides=True)
