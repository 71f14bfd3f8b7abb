"""A model's file with what is settled of it: the graphs of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from metasched.graph.buckets.bucket import Sizes
from metasched.graph.builder import Folding
from metasched.graph.errors import NetworkError
from metasched.graph.growing.graph import GrownGraphs, growing_sizes, grown_graphs
from metasched.graph.growing.graphs_of_equal_room import GraphsOfEqualRoom, GrowingModel
from metasched.graph.growing.sizes import GrowingSize
from metasched.graph.importing import Binding, import_compared, import_in_blocks, import_model, initializers, open_sizes
from metasched.graph.ir import Graph
from metasched.graph.reading.model_file import ModelFile
from metasched.graph.reading.size_expressions import size_of
from metasched.graph.running.state import with_states
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.target import Target

# A dimension that has each of these has the size that grows, whatever the model calls it.
_LENGTHS = (2, 3)


@dataclass(frozen=True)
class OpenedModel:
    """A model and what is settled of it: sizes but for ranges, shapes and values of inputs, and states.

    `lowest` are the smallest sizes of ranges, `target` the CPU that graphs are for.
    """

    file: ModelFile
    sizes: Mapping[str, int | str | GrowingSize]
    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, Any]
    states: Mapping[str, str]
    lowest: Sizes = field(default_factory=dict)
    target: Target | None = None

    def graph(self, more: Sizes) -> Graph:
        """The graph of these sizes in the ranges, to be compared with those of others.

        Of a size that grows, it has room for all.
        """
        if self._growing_model is not None:
            return self.graphs(more).whole
        return self._add_states(import_compared(self.file, self._binding(more)))

    def graphs(self, more: Sizes) -> GrownGraphs:
        """The graphs of these sizes in the ranges: one, or more of a size that grows."""
        return self._stateless_graphs(more).change_graphs(self._add_states)

    def _stateless_graphs(self, more: Sizes) -> GrownGraphs:
        growing = self._growing_model
        if growing is None:
            read = import_model if more else import_in_blocks
            return GrownGraphs(read(self.file, self._binding(more)))

        def smallest(length: int) -> Graph:
            return growing.make({**more, **self.lowest}, length, Folding())

        make = partial(growing.make, more)
        return grown_graphs(make, growing.name, growing.size, growing.axes, growing.same, smallest)

    def graphs_of_equal_room(self, largest: Sizes, change: Callable[[Graph], Graph]) -> GraphsOfEqualRoom:
        """What makes graphs of sizes in the ranges up to the largest, with the same room for caches that grow, each
        with a change.
        """
        assert self._growing_model is not None
        return GraphsOfEqualRoom(
            self._growing_model, largest, self.lowest, lambda graph: change(self._add_states(graph))
        )

    def _add_states(self, graph: Graph) -> Graph:
        return with_states(graph, {**graph.states, **self.states})

    @cached_property
    def _growing_model(self) -> GrowingModel | None:
        """The model as one that grows, if anything does."""
        growing = growing_sizes(self.sizes)
        if not growing:
            return None
        ((name, size),) = growing.items()
        known = [self._binding({**self.lowest, name: length}).sizes for length in _LENGTHS]

        def grows(dim: str) -> bool:
            return [size_of(dim, sizes) for sizes in known] == [*_LENGTHS]

        growing_dims = {value: [grows(dim) for dim in dims] for value, dims in open_sizes(self.file).items()}
        axes = {value: dims.index(True) for value, dims in growing_dims.items() if dims.count(True) == 1}

        def make(more: Sizes, length: int, folding: Folding) -> Graph:
            return import_model(self.file, self._binding({**more, name: length}), folding)

        return GrowingModel(make, name, size, axes, initializers(self.file))

    def _binding(self, more: Sizes) -> Binding:
        known = {**{name: size for name, size in self.sizes.items() if isinstance(size, int)}, **more}
        for name, text in self.sizes.items():
            if isinstance(text, str):
                found = size_of(text, known)
                if found is None:
                    have = ", ".join(known) or "none"
                    raise NetworkError(
                        f"the size `{name}` is given as `{text}`; known are {have}",
                        hint=f'a text says a size by others, {name}="past + 1"; a number is none, {name}=2',
                    )
                known[name] = found
        return Binding(known, self.shapes, self.values, self.target)
