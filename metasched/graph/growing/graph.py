"""The graphs of a model at several lengths as ones of fixed room, which read the length as a scalar.

A model whose caches grow computes the same at each length, of values that are longer. So it is imported at three
lengths. What differs between the graphs has to differ by what is linear in the length: extents grow by one with it,
numbers in programs are computed from it. Then every value has room for the longest, and every reduction takes the terms
that are there. Caches become states, of which a call writes what is new. Other graphs have room for less, and read the
first elements of the same states: what they compute is in proportion to their room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from metasched.dtypes import INDEX
from metasched.errors import LanguageError
from metasched.graph.builder import NOTHING_DECIDED, FoldedPlace, Folding
from metasched.graph.errors import NetworkError, RefusedModel
from metasched.graph.growing.caches import Cache, caches, update_program
from metasched.graph.growing.constants import grown_constant
from metasched.graph.growing.fixed_length import LabelledCache, graph_of_fixed_length
from metasched.graph.growing.programs import grown_program
from metasched.graph.growing.sizes import CHECKED_LENGTHS, FEWEST, GrowingSize, LengthDependence, Lengths, lengths_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView
from metasched.graph.placement import Growth
from metasched.graph.site import dtype_of
from metasched.graph.text import fresh_name
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

T = TypeVar("T")

# The length at which a model is looked at first, to find its caches.
FIRST_LENGTH = 2


@dataclass(frozen=True)
class GrownGraphs:
    """A model whose size grows.

    Attributes:
        whole: its graph with room for all.
        shorter: what makes its graphs with room for less, by the longest length of a call.

    """

    whole: Graph
    shorter: Mapping[int, Callable[[], Graph]] = field(default_factory=dict)

    def change_graphs(self, change: Callable[[Graph], Graph]) -> GrownGraphs:
        """All graphs with a change."""
        shorter = {longest: partial(_make_changed, change, make) for longest, make in self.shorter.items()}
        return GrownGraphs(change(self.whole), shorter)


def _make_changed(change: Callable[[Graph], Graph], make: Callable[[], Graph]) -> Graph:
    return change(make())


def grown_graphs(
    make: Callable[[int, Folding], Graph],
    name: str,
    size: GrowingSize,
    axes: Mapping[str, int],
    same: Collection[str],
    smallest: Callable[[int], Graph],
) -> GrownGraphs:
    """The graphs of a model whose size `name` grows.

    Args:
        make: the model's graph at a length, by decisions on what is computed at load.
        name: of the size; the length is an input of the network by this name.
        size: what there is room for.
        axes: the inputs that may be caches, and the dimension of each that has the size.
        same: names of constants that no length changes.
        smallest: the model's graph at a length, at the smallest of its other sizes.

    Where a call leaves room for few lengths only, and the model is none at others, each has a graph of its own. Raises
    NetworkError where there is no room, and where what the model computes depends on the length otherwise.
    """
    looked = _cache_sample(make, smallest)
    loop = next(looked.loops, None)
    if loop is not None:
        raise NetworkError(
            f"the model cannot be one network for all lengths of `{name}`: `{loop.name}` is a loop that runs a graph, "
            "whose steps are not compared at several lengths",
            hint="load it for one length, by a number",
        )
    if looked.counts:
        raise NetworkError(
            f"the model cannot be one network for all lengths of `{name}`: data decide how many "
            f"elements `{next(iter(looked.counts))}` has, which is not compared at several lengths",
            hint="load it for one length, by a number",
        )
    found = caches(looked, axes)
    try:
        return _join_graphs(make, name, size, axes, same)
    except RefusedModel:
        known = label_caches(looked, found)
        longest = _longest_alone(make, known, size)
        if longest is None:
            raise

        def alone(length: int) -> Graph:
            return graph_of_fixed_length(make(length, Folding()), known, name, length, size.capacity)

        return GrownGraphs(alone(longest), {length: partial(alone, length) for length in range(longest)})


def label_caches(graph: Graph, found: Mapping[str, Cache]) -> dict[str, LabelledCache]:
    """Caches of a graph by the names that the model has for them."""
    labels = {value: label for label, value in graph.outputs}
    return {value: LabelledCache(cache.input, labels[value], cache.axis) for value, cache in found.items()}


def _cache_sample(make: Callable[[int, Folding], Graph], smallest: Callable[[int], Graph]) -> Graph:
    """A graph to find caches in: at other sizes where the model has not the room for these at that length."""
    try:
        return make(FIRST_LENGTH, Folding())
    except RefusedModel:
        return smallest(FIRST_LENGTH)


def _longest_alone(
    make: Callable[[int, Folding], Graph], found: Mapping[str, LabelledCache], size: GrowingSize
) -> int | None:
    """The longest length of a call, where the lengths are so few that each may have a graph of its own; else None."""
    if not found:
        return None
    graph = make(0, Folding())
    outputs = dict(graph.outputs)
    added = max(graph.types[outputs[cache.label]].shape[cache.axis] for cache in found.values())
    longest = size.capacity - added
    return longest if 0 <= longest < FEWEST else None


def _join_graphs(
    make: Callable[[int, Folding], Graph],
    name: str,
    size: GrowingSize,
    axes: Mapping[str, int],
    same: Collection[str],
) -> GrownGraphs:
    """The graphs for all lengths together; see `grown_graphs`."""
    looked = make(FIRST_LENGTH, Folding())
    found = caches(looked, axes)
    lengths = lengths_of(size.capacity, [cache.count_added(looked) for cache in found.values()])
    samples, folded = sample_graphs(make, lengths)

    def joined(longest: int) -> Graph:
        return join_samples(samples, name, size.capacity, replace(lengths, longest=longest), found, same)

    whole = _JoinedGraph(samples, name, size.capacity, lengths, found, same)
    made = whole.graph()
    for length in (length for length in CHECKED_LENGTHS if length <= lengths.longest):
        whole.require_at(length, make, folded)
    return GrownGraphs(made, {longest: partial(joined, longest) for longest in size.shorter(lengths.longest)})


def join_samples(
    samples: Sequence[Graph],
    name: str,
    capacity: int,
    lengths: Lengths,
    found: Mapping[str, Cache],
    same: Collection[str],
) -> Graph:
    """The graph for all lengths up to the longest, of caches of a capacity, by those of a model at the samples.

    Raises NetworkError where what the model computes depends on the length otherwise.
    """
    return _JoinedGraph(samples, name, capacity, lengths, found, same).graph()


@dataclass(frozen=True)
class FoldedSamples:
    """What was computed at load for samples.

    Attributes:
        decided: for each program, whether it was.
        never: those that were not since what they compute depends on the length otherwise than constants can.
        made: what the others computed.

    """

    decided: Mapping[FoldedPlace, bool]
    never: Mapping[FoldedPlace, bool]
    made: Mapping[FoldedPlace, Sequence[Array]]


def sample_graphs(
    make: Callable[[int, Folding], Graph],
    lengths: Lengths,
    decided: Mapping[FoldedPlace, bool] = NOTHING_DECIDED,
) -> tuple[list[Graph], FoldedSamples]:
    """The graphs at the samples, by decisions on what is computed at load.

    What depends on the length otherwise than constants can is not computed at load.
    """
    never: dict[FoldedPlace, bool] = {}
    while True:
        folding = Folding({**decided, **never})
        made = []
        for length in lengths.samples:
            folding.begin_graph()
            made.append(make(length, folding))
        other = {place for place, arrays in folding.made.items() if not _fits(arrays, lengths)}
        if not other:
            return made, FoldedSamples(folding.decisions, never, folding.made)
        never |= dict.fromkeys(other, False)


def _fits(samples: Sequence[Array], lengths: Lengths) -> bool:
    """Whether there is a constant for what was computed at load, at all lengths."""
    if len(samples) % len(lengths.samples):
        return False
    count = len(samples) // len(lengths.samples)
    try:
        for n in range(count):
            grown_constant(samples[n::count], lengths)
    except LengthDependence:
        return False
    return True


class _JoinedGraph:
    """The graph in the making."""

    def __init__(
        self,
        samples: Sequence[Graph],
        name: str,
        capacity: int,
        lengths: Lengths,
        found: Mapping[str, Cache],
        same: Collection[str],
    ) -> None:
        self._samples = samples
        self._first = samples[0]
        self._lengths = lengths
        self._capacity = capacity
        self._same = same
        self._require_equal_structure()
        self._caches = found
        self._length = fresh_name(name, self._first.types, "_")
        caches = self._caches.values()
        self._wide = {name: 0 for cache in caches for name in self._views_of({cache.input})}
        self._wide |= {
            name: cache.count_added(self._first) for cache in caches for name in self._views_of({cache.output})
        }
        self._offsets: dict[str, tuple[int | None, ...]] = {}
        self._types: dict[str, ValueType] = {self._length: ValueType(INDEX, ())}
        self._constants: dict[str, Array] = {}
        self._nodes: list[Node] = []

    def graph(self) -> Graph:
        first = self._first
        for name in first.types:
            self._types[name] = self._make_part(f"the value `{name}`", partial(self._grown_type, name))
        for name in first.constants:
            self._make_part(f"the constant `{name}`", partial(self._constant, name))
        for nodes in zip(*(graph.nodes for graph in self._samples), strict=True):
            self._make_part(f"{nodes[0].op} `{nodes[0].name}`", partial(self._node, nodes))
        labels = {name: label for label, name in first.outputs}
        states = {cache.input: labels[cache.output] for cache in self._caches.values()}
        kept = {*first.inputs, *(name for _, name in first.outputs)} - {c.input for c in self._caches.values()}
        grown = {name: self._offsets[name] for name in kept if any(b is not None for b in self._offsets[name])}
        made = replace(
            first,
            types=self._types,
            inputs=(*first.inputs, self._length),
            constants=self._constants,
            nodes=tuple(self._nodes),
            states=states,
            growth=Growth(self._length, self._lengths.longest, grown, frozenset(states)),
        )
        made.validate()
        return made

    def _make_part(self, what: str, make: Callable[[], T]) -> T:
        """Make a part of the model; an error names the part."""
        try:
            return make()
        except LengthDependence as error:
            raise NetworkError(
                f"the model cannot be one network for all lengths of `{self._length}`: {what}: {error}",
                hint="load it for one length, by a number",
            ) from None
        except LanguageError as error:
            raise NetworkError(
                f"the model cannot be one network for all lengths of `{self._length}`: {what} has no program: "
                f"{error.diagnostics[0].message}"
            ) from error

    def _require_equal_structure(self) -> None:
        def structure(graph: Graph) -> tuple[object, ...]:
            nodes = [(type(node), node.op, node.inputs, node.outputs) for node in graph.nodes]
            return graph.inputs, graph.outputs, nodes, [*graph.types], [*graph.constants]

        if any(structure(graph) != structure(self._first) for graph in self._samples[1:]):
            pairs = zip(self._first.nodes, self._samples[-1].nodes, strict=False)
            other = next((a.name for a, b in pairs if (a.op, a.inputs, a.outputs) != (b.op, b.inputs, b.outputs)), "")
            raise NetworkError(
                f"the model computes something else at some lengths than at others{other and f', from `{other}` on'}",
                hint="load it for one length, by a number",
            )

    def _views_of(self, names: set[str]) -> set[str]:
        """Values and all views of them."""
        for node in self._first.nodes:
            if isinstance(node, ShapeView) and node.input in names:
                names = {*names, node.output}
        return names

    def require_at(self, length: int, make: Callable[[int, Folding], Graph], folded: FoldedSamples) -> None:
        """Require that the model has the shapes and numbers at a short length that it has at the samples.

        What cannot be expressed at this length cannot be compared. Raises NetworkError.
        """
        folding = Folding(folded.never)
        try:
            graph = make(length, folding)
        except RefusedModel:
            return
        ends = zip(self._first.outputs, graph.outputs, strict=True)
        pairs = {name: name for name in graph.types.keys() & self._offsets.keys()}
        for name, there in (pairs | {own: other for (_, own), (_, other) in ends}).items():
            dims = zip(self._first.types[name].shape, self._offsets[name], strict=True)
            shape = tuple(n if b is None else length + b for n, b in dims)
            if graph.types[there].shape != shape:
                self._refuse_at(length, f"`{name}` has the shape {graph.types[there].shape} there, and not {shape}")
        count = len(self._samples)
        for place, arrays in folding.made.items():
            samples = folded.made.get(place, ())
            if len(samples) == count * len(arrays):
                for n, array in enumerate(arrays):
                    expected = grown_constant(samples[n :: len(arrays)], self._lengths).evaluate(length, array.shape)
                    if not np.array_equal(array, expected):
                        self._refuse_at(length, f"`{place[0]}` is {array} there, and not {expected}")

    def _refuse_at(self, length: int, reason: str) -> None:
        raise NetworkError(
            f"the model cannot be one network for all lengths of `{self._length}`: at {length} it is another: {reason}",
            hint="load it for one length, by a number",
        )

    # --- values

    def _grown_type(self, name: str) -> ValueType:
        types = [graph.types[name] for graph in self._samples]
        offsets = self._offsets[name] = self._lengths.offsets([type_.shape for type_ in types])
        shape = [n if b is None else self._room(name, b) for n, b in zip(types[0].shape, offsets, strict=True)]
        return ValueType(types[0].dtype, tuple(shape))

    def _room(self, name: str, offset: int) -> int:
        """How long a dimension is that is longer than the size by so much; a cache has room for all."""
        return self._capacity if self._wide.get(name) == offset else self._lengths.longest + offset

    def _constant(self, name: str) -> None:
        samples = [graph.constants[name] for graph in self._samples]
        if name in self._same:
            self._constants[name] = samples[0]
            return
        found = grown_constant(samples, self._lengths)
        if found.program is None:
            self._constants[name] = found.elements
            return
        given = [array for array in (found.elements, found.slopes) if array is not None]
        sources = [self._new_constant(f"{name}.at_length", array) for array in given]
        self._nodes.append(Compute(name, "Constant", found.program, (*sources, self._length), (name,)))

    def _new_constant(self, like: str, array: Array) -> str:
        name = fresh_name(like, {*self._first.types, *self._types})
        self._types[name] = ValueType(dtype_of(array), array.shape)
        self._constants[name] = array
        return name

    # --- nodes

    def _node(self, nodes: Sequence[Node]) -> None:
        first = nodes[0]
        if isinstance(first, ShapeView):
            self._require_view(first)
            self._nodes.append(first)
            return
        computes = [node for node in nodes if isinstance(node, Compute)]
        if first.outputs[0] in self._caches:
            self._nodes.append(self._update(computes[0], self._caches[first.outputs[0]]))
            return
        buffers = [b.name for b in (*computes[0].program.inputs, *computes[0].program.outputs)]
        given = {name: self._types[value] for name, value in zip(buffers, (*first.inputs, *first.outputs), strict=True)}
        constant = {name for name, value in zip(buffers, first.inputs, strict=False) if value in self._constants}
        made = grown_program([node.program for node in computes], given, frozenset(constant), self._lengths)
        inputs = (*first.inputs, self._length) if made.reads_length else first.inputs
        self._nodes.append(replace(computes[0], program=made.program, inputs=inputs))

    def _update(self, node: Compute, cache: Cache) -> Compute:
        added = cache.count_added(self._first)
        if any(other.count_added(self._first) != added for other in self._caches.values()):
            raise LengthDependence(f"a call adds {added} elements to it, and other numbers to other caches")
        program = update_program(cache, self._types[cache.output], added)
        return replace(node, program=program, inputs=(cache.input, cache.new, self._length))

    def _require_view(self, view: ShapeView) -> None:
        """Dimensions that grow stay as they are in a view, and so does the number of elements after each."""
        found = [_growing_extents(self._types[name].shape, self._offsets[name]) for name in (view.input, view.output)]
        if found[0] != found[1]:
            raise LengthDependence("a view of it makes one dimension of one that grows and others")


def _growing_extents(shape: Sequence[int], offsets: Sequence[int | None]) -> list[tuple[int, int]]:
    """The extents of the dimensions that grow, each with the elements between it and the next."""
    at = [d for d, b in enumerate(offsets) if b is not None]
    return [(shape[d], math.prod(shape[d + 1 : end])) for d, end in zip(at, [*at[1:], len(shape)], strict=False)]


def growing_sizes(sizes: Mapping[str, object]) -> dict[str, GrowingSize]:
    """The sizes that grow. Raises NetworkError for more than one."""
    found = {name: size for name, size in sizes.items() if isinstance(size, GrowingSize)}
    if len(found) > 1:
        raise NetworkError(f"one size may grow, and {' and '.join(found)} are to")
    return found
