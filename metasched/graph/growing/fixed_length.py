"""A model at one length of its caches as a network of fixed room.

Where a call leaves little room, as a prompt that fills the caches does, a model cannot be looked at at several lengths:
it may have tables of just that many rows. So each of the few lengths that are left has a graph of its own, in which the
caches are the first elements of states that have room for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from metasched.dtypes import INDEX
from metasched.graph.errors import NetworkError
from metasched.graph.fusion.stages import parse_once
from metasched.graph.ir import Compute, Graph, Node, replace_reads
from metasched.graph.placement import Growth
from metasched.graph.text import at, fresh_name, indices
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
    name = fresh_name(name, graph.types, "_")
    states = _States({**graph.types, name: ValueType(INDEX, ())}, dict(graph.outputs), capacity)
    for cache in caches.values():
        states.add(cache, length)
    result = replace(
        graph,
        types=states.types,
        inputs=(*graph.inputs, name),
        outputs=tuple(states.outputs.items()),
        nodes=states.add_states(graph.nodes),
        states={cache.input: cache.label for cache in caches.values()},
        growth=Growth(name, length, {}),
    )
    result.validate()
    return result


class _States:
    """Caches that become states with room for all, of which a model reads the first elements."""

    def __init__(self, types: dict[str, ValueType], outputs: dict[str, str], capacity: int) -> None:
        self.types = types
        self.outputs = outputs
        self._capacity = capacity
        self._held: dict[str, str] = {}  # what the model reads, by the state
        self._before: list[Compute] = []  # make what is held
        self._after: list[Compute] = []  # make the states of the next call

    def add(self, cache: LabelledCache, length: int) -> None:
        """Make a state of a cache. Raises NetworkError where it has not the room for what a call adds."""
        short, made = self.types[cache.input], self.outputs[cache.label]
        total = self.types[made].shape[cache.axis]
        if total > self._capacity:
            raise NetworkError(f"a call adds {total - length} elements to caches that have room for {self._capacity}")
        whole = _replace_extent(short, cache.axis, self._capacity)
        self.types[cache.input] = whole
        if short.size:
            own = self._held[cache.input] = _new(f"{cache.input}.held", self.types, short)
            self._before.append(_first_elements(cache.input, own, whole, short))
        following = _new(f"{made}.next", self.types, whole)
        self._after.append(_next_cache(cache, made, following, self.types[made], whole))
        self.outputs[cache.label] = following

    def add_states(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """The model's nodes, which read what is held, and those of the states around them."""
        after = (replace(n, inputs=(self._held.get(n.inputs[0], n.inputs[0]), *n.inputs[1:])) for n in self._after)
        return (*self._before, *(replace_reads(node, self._held) for node in nodes), *after)


def _replace_extent(type_: ValueType, axis: int, extent: int) -> ValueType:
    return ValueType(type_.dtype, tuple(extent if d == axis else n for d, n in enumerate(type_.shape)))


def _new(like: str, types: dict[str, ValueType], type_: ValueType) -> str:
    name = fresh_name(like, types)
    types[name] = type_
    return name


def _first_elements(cache: str, made: str, whole: ValueType, short: ValueType) -> Compute:
    over = indices(whole.rank)
    text = f"program held(A: {whole}) -> Y: {short}:\n    {at('Y', over)} = {at('A', over)}\n"
    return Compute(made, _OP, parse_once(text), (cache,), (made,))


def _next_cache(cache: LabelledCache, new: str, made: str, type_: ValueType, whole: ValueType) -> Compute:
    """The node of a cache's next elements: those that the model gives, and behind them those before."""
    over = indices(whole.rank)
    total = type_.shape[cache.axis]
    text = (
        f"program next(A: {type_}, B: {whole}) -> Y: {whole}:\n"
        f"    {at('Y', over)} = {at('A', over)} if {over[cache.axis]} < {total} else {at('B', over)}\n"
    )
    return Compute(made, _OP, parse_once(text), (new, cache.input), (made,))
