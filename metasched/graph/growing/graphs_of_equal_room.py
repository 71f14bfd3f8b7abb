"""A model whose caches grow at several of its other sizes: graphs with the same room, so that one may serve all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from metasched.graph.builder import Folding
from metasched.graph.errors import RefusedModel
from metasched.graph.growing.caches import caches
from metasched.graph.growing.fixed_length import LabelledCache, graph_of_fixed_length
from metasched.graph.growing.graph import FIRST_LENGTH, FoldedSamples, join_samples, label_caches, sample_graphs
from metasched.graph.growing.sizes import GrowingSize, Lengths, lengths_of
from metasched.graph.ir import Graph
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

Sizes = Mapping[str, int]

# Sizes whose samples are kept for graphs with other room.
_MOST_KEPT_GRAPHS = 4


@dataclass(frozen=True)
class GrowingModel:
    """What is asked of a model whose size grows.

    Attributes:
        make: its graph at other sizes and a length, by decisions on what is computed at load.
        name: of the size; the length is an input of the network by this name.
        size: what there is room for.
        axes: the inputs that may be caches, and the dimension of each that has the size.
        same: names of constants that no length changes.

    """

    make: Callable[[Sizes, int, Folding], Graph]
    name: str
    size: GrowingSize
    axes: Mapping[str, int]
    same: Collection[str]


class GraphsOfEqualRoom:
    """The graphs of a model at other sizes up to the largest, for calls at the same lengths.

    The caches have room for all in each. A call of the largest sizes leaves the least of it, so it says how long they
    may be before a call of any of these sizes. Where the model cannot be looked at at several lengths, as where its
    tables have just as many rows as a call of the largest sizes reads, the graphs are of calls on empty caches.
    """

    def __init__(self, model: GrowingModel, largest: Sizes, smallest: Sizes, change: Callable[[Graph], Graph]) -> None:
        """`smallest` are sizes at which caches are looked for where the largest have not the room; `change` is made to
        all graphs.
        """
        self._model = model
        self._change = change
        self._largest = dict(largest)
        self._smallest = dict(smallest)
        self._kept: OrderedDict[tuple[int, ...], list[Graph]] = OrderedDict()

    @property
    def rooms(self) -> tuple[int, ...]:
        """How long caches may be before calls on each of the graphs of some sizes, the shortest first.

        Raises NetworkError where there is no room for a call of the largest sizes.
        """
        if self._length_samples is None:
            return (0,)
        longest = self._length_samples.lengths.longest
        return (*sorted(self._model.size.shorter(longest)), longest)

    def graph(self, sizes: Sizes, longest: int) -> Graph:
        """The graph of these sizes for calls on caches of up to some length, one of `rooms`.

        Raises NetworkError where the model has none, or one that depends on the length otherwise than such a graph can.
        """
        return self._change(self._make_graph(sizes, longest))

    def _make_graph(self, sizes: Sizes, longest: int) -> Graph:
        model, sampled = self._model, self._length_samples
        if sampled is None:
            return graph_of_fixed_length(
                model.make(sizes, 0, Folding()), self._empty, model.name, 0, model.size.capacity
            )
        samples = self._samples(sizes, sampled)
        lengths = replace(sampled.lengths, longest=longest)
        return join_samples(
            samples, model.name, model.size.capacity, lengths, caches(samples[0], model.axes), model.same
        )

    def _samples(self, sizes: Sizes, sampled: _LengthSamples) -> list[Graph]:
        key = tuple(sizes[name] for name in self._largest)
        found = self._kept.get(key)
        if found is None:
            found = sample_graphs(self._graph_maker(sizes), sampled.lengths, sampled.folded.decided)[0]
            # Graphs with other room are made in other threads, which let go of what was kept here.
            self._kept[key] = found
            if len(self._kept) > _MOST_KEPT_GRAPHS:
                self._kept.popitem(last=False)
        return found

    def _graph_maker(self, sizes: Sizes) -> Callable[[int, Folding], Graph]:
        return lambda length, folding: self._model.make(sizes, length, folding)

    @cached_property
    def _length_samples(self) -> _LengthSamples | None:
        """The largest sizes at several lengths; None where the model has these not."""
        make = self._graph_maker(self._largest)
        try:
            looked = make(FIRST_LENGTH, Folding())
            found = caches(looked, self._model.axes).values()
            lengths = lengths_of(self._model.size.capacity, [cache.count_added(looked) for cache in found])
            samples, folded = sample_graphs(make, lengths)
        except RefusedModel:
            return None
        self._kept[tuple(self._largest.values())] = samples
        return _LengthSamples(lengths, folded)

    @cached_property
    def _empty(self) -> Mapping[str, LabelledCache]:
        """The caches of calls on empty ones."""
        looked = self._model.make({**self._largest, **self._smallest}, FIRST_LENGTH, Folding())
        return label_caches(looked, caches(looked, self._model.axes))


@dataclass(frozen=True)
class _LengthSamples:
    """The lengths at which a model is read, and what is computed at load of it then."""

    lengths: Lengths
    folded: FoldedSamples
