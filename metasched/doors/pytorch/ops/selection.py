"""Elements picked by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.node_types.gathering import from_the_beginning
from metasched.graph.node_types.movement import sliced
from metasched.graph.text import at, broadcast, declared, indices, number, read


@aten("embedding")
def embedding(
    site: AtenSite, weight: GraphValue, index: GraphValue, padding_idx: int = -1, *args: Any, **named: Any
) -> GraphValue:
    return site.call("Gather", weight, index, axis=0)


@aten("index_select")
def index_select(site: AtenSite, x: GraphValue, dim: int, index: GraphValue) -> GraphValue:
    return site.call("Gather", x, index, axis=site.axis(dim, x.rank))


@aten("gather")
def gather(site: AtenSite, x: GraphValue, dim: int, index: GraphValue, *, sparse_grad: bool = False) -> GraphValue:
    axis = site.axis(dim, x.rank)
    parts = {n: (0, 1, extent) for n, extent in enumerate(index.shape) if n != axis and extent < x.shape[n]}
    if parts:
        x = sliced(site.nodes.site("Slice"), x, parts)
    return site.call("GatherElements", x, index, axis=axis)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index_(site: AtenSite, x: GraphValue, given: Sequence[GraphValue | None]) -> GraphValue:
    """One tensor of indices for each of some dimensions, broadcast together."""
    picked = {n: i for n, i in enumerate(given) if i is not None}
    if any(i.type.dtype.is_bool or not i.type.dtype.is_integer for i in picked.values()):
        raise Unsupported("a mask picks as many elements as the data say")
    dims = sorted(picked)
    shape = broadcast(*(i.shape for i in picked.values()))
    together = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if together else 0
    over = indices(len(site.shape))
    place, rest = over[first : first + len(shape)], [*over[:first], *over[first + len(shape) :]]
    node = site.nodes.site("Index")
    stages: list[str] = []
    met: list[str] = []
    inputs: dict[str, GraphValue] = {}
    subscripts: list[str] = []
    for dim in range(x.rank):
        if dim not in picked:
            subscripts.append(rest.pop(0))
            continue
        index = from_the_beginning(node, picked[dim], x.shape[dim])
        inputs[f"I{dim}"] = index
        element = read(f"I{dim}", index.shape, place, shape)
        if index.constant is None:
            own = indices(index.rank, "j")
            source = at(f"I{dim}", own)
            stages += [
                declared(f"J{dim}", ValueType(DType.I64, index.shape)),
                f"{at(f'J{dim}', own)} = (i64({source}) + {x.shape[dim]} if {source} < 0 else i64({source}))",
            ]
            element = read(f"J{dim}", index.shape, place, shape)
            met.append(f"{element} >= 0 and {element} < {x.shape[dim]}")
        subscripts.append(element)
    text = at("A", subscripts)
    if met:
        text = f"{text} if {' and '.join(met)} else {number(0, x.type.dtype)}"
    stages.append(f"{at('Y', over)} = {text}")
    return node.single(stages, ValueType(x.type.dtype, site.shape), A=x, **inputs)


@aten("topk")
def top_k(
    site: AtenSite, x: GraphValue, k: int, dim: int = -1, largest: bool = True, *order: Any, **named: Any
) -> tuple[GraphValue | None, ...]:
    """In order whether that is asked for or not."""
    del order, named
    axis = site.axis(dim, x.rank)
    return site.nodes.several("TopK", x, site.integers([k]), outputs=2, axis=axis, largest=int(largest))


@aten("scatter.src", "scatter.value", "scatter_add")
def scatter(site: AtenSite, x: GraphValue, dim: int, index: GraphValue, src: Any) -> GraphValue:
    """One number is put in all places; of a tensor that is larger than the indices, the first elements are."""
    reduction = "add" if "scatter_add" in site.name else "none"
    updates = site.value(src, site.result)
    if not isinstance(src, GraphValue):
        updates = site.call("Expand", updates, site.integers(index.shape))
    parts = {n: (0, 1, extent) for n, extent in enumerate(index.shape) if extent < updates.shape[n]}
    if parts:
        updates = sliced(site.nodes.site("Slice"), updates, parts)
    return site.call("ScatterElements", x, index, updates, axis=site.axis(dim, x.rank), reduction=reduction)


@aten("index_put")
def index_put(
    site: AtenSite,
    x: GraphValue,
    given: Sequence[GraphValue | None],
    values: GraphValue,
    accumulate: bool = False,
) -> GraphValue:
    """Places are of the first dimensions, by tensors of indices that are broadcast together."""
    picked = [index for index in given if index is not None]
    if any(index is None for index in given[: len(picked)]):
        raise Unsupported("places of dimensions behind one that is whole are not known")
    if any(index.type.dtype.is_bool or not index.type.dtype.is_integer for index in picked):
        raise Unsupported("a mask picks as many elements as the data say")
    shape = broadcast(*(index.shape for index in picked))
    wide = [site.call("Expand", site.value(index, DType.I64), site.integers(shape)) for index in picked]
    places = site.call("Concat", *(site.nodes.view(index, (*shape, 1)) for index in wide), axis=len(shape))
    updates = site.call("Expand", values, site.integers((*shape, *x.shape[len(picked) :])))
    return site.call("ScatterND", x, places, updates, reduction="add" if accumulate else "none")
