"""Elements picked by indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.doors.indexed_places import gather_at_places
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite, along_rows
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.moved_elements import slice_axes


@aten("embedding")
def embedding(
    site: AtenSite, weight: GraphValue, index: GraphValue, padding_idx: int = -1, *args: Any, **named: Any
) -> GraphValue:
    return site.call("Gather", weight, index, axis=0)


@aten("index_select")
@along_rows
def index_select(site: AtenSite, x: GraphValue, dim: int, index: GraphValue) -> GraphValue:
    return site.call("Gather", x, site.row(index), axis=site.axis(dim, x.rank))


@aten("gather")
@along_rows
def gather(site: AtenSite, x: GraphValue, dim: int, index: GraphValue, *, sparse_grad: bool = False) -> GraphValue:
    axis, index = site.axis(dim, x.rank), site.row(index)
    parts = {n: (0, 1, extent) for n, extent in enumerate(index.shape) if n != axis and extent < x.shape[n]}
    if parts:
        x = slice_axes(site.nodes.site("Slice"), x, parts)
    return site.nodes.view(site.call("GatherElements", x, index, axis=axis), site.shape)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index_(site: AtenSite, x: GraphValue, given: Sequence[GraphValue | None]) -> GraphValue:
    """One tensor of indices for each of some dimensions, broadcast together."""
    places = places_of(site, given)
    return gather_at_places(site.nodes, x, places, first_index_dim(places))


def places_of(site: AtenSite, given: Sequence[GraphValue | None]) -> dict[int, GraphValue]:
    """Indices by their dimensions; a mask that is known is the places where it holds."""
    places: dict[int, GraphValue] = {}
    dim = 0
    for index in given:
        if index is None:
            dim += 1
        elif index.type.dtype.is_bool and index.constant is not None:
            for place in np.nonzero(index.constant):
                places[dim] = site.nodes.constant("positions", place)
                dim += 1
        else:
            places[dim] = index
            dim += 1
    return places


def first_index_dim(places: Mapping[int, GraphValue]) -> int:
    """The result's first dimension of indices: in their place if they are side by side, and 0 if they are not."""
    dims = sorted(places)
    return dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0


@aten("topk")
@along_rows
def top_k(
    site: AtenSite, x: GraphValue, k: int, dim: int = -1, largest: bool = True, *order: Any, **named: Any
) -> tuple[GraphValue | None, ...]:
    """The first elements and their places, in order even where that is not asked for."""
    del order, named
    axis = site.axis(dim, x.rank)
    return site.nodes.call_outputs("TopK", x, site.integers([k]), outputs=2, axis=axis, largest=int(largest))
