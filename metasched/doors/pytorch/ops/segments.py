"""Reductions of segments: rows that follow one another, as many as lengths or offsets say."""

from __future__ import annotations

import math

import numpy as np

from metasched.doors.indexed_places import scatter_at_places
from metasched.doors.ordered import search
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis

# PyTorch's reductions as those of scatters, and what a segment without rows is.
_REDUCTIONS = {
    "max": ("max", -math.inf),
    "mean": ("add", 0.0),
    "min": ("min", math.inf),
    "prod": ("mul", 1.0),
    "sum": ("add", 0.0),
}


@aten("segment_reduce")
def segment_reduce(
    site: AtenSite,
    data: GraphValue,
    reduce: str,
    *,
    lengths: GraphValue | None = None,
    indices: GraphValue | None = None,
    offsets: GraphValue | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> GraphValue:
    """Lengths that are not those of all rows are an error of PyTorch's: here what has no segment counts nowhere."""
    if site.axis(axis, data.rank) != 0 or indices is not None:
        raise Unsupported("segments along the first dimension, by lengths or offsets, have a form here")
    if initial is not None and reduce == "mean":
        raise Unsupported("a mean with an initial value has no form here")
    rows, nodes = data.shape[0], site.nodes
    place = _segments(site, rows, lengths, offsets)
    reduction, neutral = _REDUCTIONS[reduce]
    begun = nodes.constant("begun", np.full(site.shape, neutral if initial is None else initial, site.result.numpy))
    made = scatter_at_places(nodes, begun, {0: place}, 0, data, reduction)
    if reduce != "mean":
        return made
    zeros = nodes.constant("zeros", np.zeros(site.shape[:1], site.result.numpy))
    ones = nodes.constant("ones", np.ones(rows, site.result.numpy))
    counts = scatter_at_places(nodes, zeros, {0: place}, 0, ones, "add")
    wide = nodes.view(counts, (site.shape[0], *(1,) * (data.rank - 1)))
    return site.expression("{0} / {1}", made, wide, divides=True)


def _segments(site: AtenSite, rows: int, lengths: GraphValue | None, offsets: GraphValue | None) -> GraphValue:
    """The number of each row's segment; of rows before the first and behind the last one, how many segments are."""
    given = lengths if lengths is not None else offsets
    if given is None or given.rank != 1:
        raise Unsupported("lengths or offsets of one dimension are wanted")
    nodes, whole = site.nodes, site.value(given, DType.I64)
    every = nodes.constant("rows", np.arange(rows))
    if lengths is not None:
        return search(nodes, scan_axis(nodes.site("Scan"), whole, Scan("sum", 0)), every, right=True)
    begun = search(nodes, whole, every, right=True)
    text = f"({{0}} - 1 if {{0}} > 0 else {site.shape[0]})"
    return nodes.expression("Segment", text, [begun], [DType.I64], DType.I64)
