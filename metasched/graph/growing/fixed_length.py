"""A model at one length of its caches as a network of fixed room.

Where a call leaves little room, as a prompt that fills the caches does, a model cannot be looked at at several lengths:
it may have tables of just that many rows. So each of the few lengths that are left has a graph of its own, in which the
caches are the first elements of states that have room for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.dtypes import INDEX
from metasched.graph.errors import NetworkError
from metasched.graph.fusion.stages import parsed
from metasched.graph.ir import Compute, Graph, ShapeView
from metasched.graph.placement import Growth
from metasched.graph.text import at, fresh, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

_OP = "Cache"


@dataclass(frozen=True)
class LabelledCache:
    """An input that an output makes longer along an axis, by their names in the model."""

    input: str
    label: str
    axis: int


def graph_of_fixed_length(
    graph: Graph, caches: Mapping[str, LabelledCache], name: str, length: int, capacity: int
) -> Graph:
    """The graph of a model whose caches have a length, for calls at that length alone, which they give by `name`.

    Raises NetworkError where the caches have not the room for what a call adds.
    """
    name = fresh(name, graph.types, "_")
    types = {**graph.types, name: ValueType(INDEX, ())}
    held: dict[str, str] = {}
    before: list[Compute] = []
    after: list[Compute] = []
    outputs = dict(graph.outputs)
    for cache in caches.values():
        short, made = graph.types[cache.input], outputs[cache.label]
        total = graph.types[made].shape[cache.axis]
        if total > capacity:
            raise NetworkError(f"a call adds {total - length} elements to caches that have room for {capacity}")
        whole = _with_extent(short, cache.axis, capacity)
        types[cache.input] = whole
        if short.size:
            own = held[cache.input] = _new(f"{cache.input}.held", types, short)
            before.append(_first_elements(cache.input, own, whole, short))
        following = _new(f"{made}.next", types, whole)
        after.append(_next(cache, made, following, graph.types[made], whole))
        outputs[cache.label] = following
    nodes = tuple(
        replace(node, input=held.get(node.input, node.input))
        if isinstance(node, ShapeView)
        else replace(node, inputs=tuple(held.get(value, value) for value in node.inputs))
        for node in graph.nodes
        if isinstance(node, Compute | ShapeView)
    )
    result = replace(
        graph,
        types=types,
        inputs=(*graph.inputs, name),
        outputs=tuple(outputs.items()),
        nodes=(
            *before,
            *nodes,
            *(replace(n, inputs=(held.get(n.inputs[0], n.inputs[0]), *n.inputs[1:])) for n in after),
        ),
        states={cache.input: cache.label for cache in caches.values()},
        growth=Growth(name, length, {}),
    )
    result.validate()
    return result


def _with_extent(type_: ValueType, axis: int, extent: int) -> ValueType:
    return ValueType(type_.dtype, tuple(extent if d == axis else n for d, n in enumerate(type_.shape)))


def _new(like: str, types: dict[str, ValueType], type_: ValueType) -> str:
    name = fresh(like, types)
    types[name] = type_
    return name


def _first_elements(cache: str, made: str, whole: ValueType, short: ValueType) -> Compute:
    over = indices(whole.rank)
    text = f"program held(A: {whole}) -> Y: {short}:\n    {at('Y', over)} = {at('A', over)}\n"
    return Compute(made, _OP, parsed(text), (cache,), (made,))


def _next(cache: LabelledCache, new: str, made: str, type_: ValueType, whole: ValueType) -> Compute:
    """What a cache is next: what the model gives, and behind it what was there."""
    over = indices(whole.rank)
    total = type_.shape[cache.axis]
    text = (
        f"program next(A: {type_}, B: {whole}) -> Y: {whole}:\n"
        f"    {at('Y', over)} = {at('A', over)} if {over[cache.axis]} < {total} else {at('B', over)}\n"
    )
    return Compute(made, _OP, parsed(text), (new, cache.input), (made,))
