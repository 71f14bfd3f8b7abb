"""Bags of embeddings: rows of a table that indices pick, summed, averaged or compared, bag by bag."""

from __future__ import annotations

import numpy as np

from metasched.doors.indexed_places import scatter_at_places
from metasched.doors.ordered import search
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.text import number

_SUM, _MEAN, _MAX = 0, 1, 2


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    site: AtenSite,
    weight: GraphValue,
    indices: GraphValue,
    offsets: GraphValue,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: GraphValue | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[GraphValue | None, ...]:
    """`offsets` are where bags begin among the indices."""
    site.require_unused(1, 2, 3)
    bags, size = site.shape
    rows = site.call("Gather", weight, indices, axis=0)
    if per_sample_weights is not None:
        factors = site.nodes.view(per_sample_weights, (*per_sample_weights.shape, 1))
        rows = site.expression("{0} * {1}", rows, factors)
    takes_part = _takes_part(site, indices, padding_idx)
    if takes_part is not None:
        filler = site.value(float("-inf") if mode == _MAX else 0.0)
        rows = site.nodes.select(site.nodes.view(takes_part, (indices.type.size, 1)), rows, filler)
    length = _even(offsets, bags, indices.type.size)
    if length is not None and mode != _MEAN:
        grouped = site.nodes.view(rows, (bags, length, size))
        made = site.call("ReduceMax" if mode == _MAX else "ReduceSum", grouped, axes=(1,), keepdims=0)
        return _zero_empty_bags(site, made) if mode == _MAX else made, None, None, None
    if length is not None and takes_part is None:
        grouped = site.nodes.view(rows, (bags, length, size))
        return site.call("ReduceMean", grouped, axes=(1,), keepdims=0), None, None, None
    return _reduce_bags(site, rows, offsets, takes_part, mode), None, None, None


def _takes_part(site: AtenSite, indices: GraphValue, padding_idx: int) -> GraphValue | None:
    if padding_idx < 0:
        return None
    return site.nodes.expression("Used", f"{{0}} != {padding_idx}", [indices], [indices.type.dtype], DType.BOOL)


def _even(offsets: GraphValue, bags: int, count: int) -> int | None:
    """How many indices each bag has, where that is known and one number."""
    if offsets.constant is None or not bags or count % bags or not count:
        return None
    length = count // bags
    return length if np.array_equal(offsets.constant[:bags], np.arange(bags) * length) else None


def _reduce_bags(
    site: AtenSite, rows: GraphValue, offsets: GraphValue, takes_part: GraphValue | None, mode: int
) -> GraphValue:
    """Reduce rows to bags: each row goes to the bag that it is in."""
    count, nodes = rows.shape[0], site.nodes
    begins = site.value(offsets, DType.I64)
    places = nodes.constant("positions", np.arange(count))
    bag = nodes.expression("Bag", "{0} - 1", [search(nodes, begins, places, right=True)], [DType.I64], DType.I64)
    filler = float("-inf") if mode == _MAX else 0.0
    begun = nodes.constant("begun", np.full(site.shape, filler, site.result.numpy))
    made = scatter_at_places(nodes, begun, {0: bag}, 0, rows, "max" if mode == _MAX else "add")
    if mode == _MAX:
        return _zero_empty_bags(site, made)
    if mode == _SUM:
        return made
    ones = nodes.constant("ones", np.ones(count, site.result.numpy)) if takes_part is None else takes_part
    zeros = nodes.constant("zeros", np.zeros(site.shape[:1], site.result.numpy))
    counts = scatter_at_places(nodes, zeros, {0: bag}, 0, site.value(ones, site.result), "add")
    return site.expression("{0} / max({1}, 1.0)", made, nodes.view(counts, (site.shape[0], 1)))


def _zero_empty_bags(site: AtenSite, made: GraphValue) -> GraphValue:
    """A bag of nothing is zero."""
    return site.expression(f"({number(0, site.result)} if {{0}} == -inf else {{0}})", made)
