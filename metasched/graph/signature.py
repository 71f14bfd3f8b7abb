"""What callers see of a network without its graph: names and types of what it takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Self

from metasched.graph.counted_axis import CountedAxis
from metasched.graph.ir import Graph
from metasched.graph.placement import Growth
from metasched.graph.value_type import ValueType
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Signature:
    """What a network takes and returns.

    Attributes:
        name: the network's.
        inputs: names and types of all inputs, in order, states among them.
        outputs: labels and types of all outputs.
        states: inputs that are held between calls, and the labels of the outputs that they are next.
        growth: what grows from call to call, of inputs by their names and of outputs by their labels.
        counts: outputs with a size that a call decides, which is at most that of their type, by their labels; the
            outputs that say it are not returned.

    """

    name: str
    inputs: Mapping[str, ValueType]
    outputs: Mapping[str, ValueType]
    states: Mapping[str, str]
    growth: Growth | None = None
    counts: Mapping[str, CountedAxis] = field(default_factory=dict)

    @classmethod
    def from_graph(cls, graph: Graph) -> Self:
        """The signature of a graph."""
        return cls(
            graph.name,
            {name: graph.types[name] for name in graph.inputs},
            {label: graph.types[name] for label, name in graph.outputs},
            dict(graph.states),
            _growth_by_labels(graph),
            dict(graph.counts),
        )

    @cached_property
    def given(self) -> Mapping[str, ValueType]:
        """The inputs that calls give."""
        return {name: type_ for name, type_ in self.inputs.items() if name not in self.states}

    @cached_property
    def returned(self) -> Mapping[str, ValueType]:
        """The outputs that calls return."""
        held = {*self.states.values(), *(count.label for count in self.counts.values())}
        return {label: type_ for label, type_ in self.outputs.items() if label not in held}

    @property
    def held(self) -> Mapping[str, ValueType]:
        """The inputs that are held between calls."""
        return {name: self.inputs[name] for name in self.states}

    def with_longest(self, longest: int) -> Signature:
        """The same for calls on caches of up to some length, where these grow."""
        growth = self.growth
        if growth is None:
            return self
        grown = {**self.given, **self.returned}
        inputs, outputs = (
            {
                name: replace(type_, shape=growth.shape(name, type_.shape, longest)) if name in grown else type_
                for name, type_ in types.items()
            }
            for types in (self.inputs, self.outputs)
        )
        return replace(self, inputs=inputs, outputs=outputs, growth=replace(growth, longest=longest))


def _growth_by_labels(graph: Graph) -> Growth | None:
    """What grows of a graph, of outputs by their labels."""
    if graph.growth is None:
        return None
    values = graph.growth.values
    own = {name: values[name] for name in graph.inputs if name in values}
    return replace(graph.growth, values=own | {label: values[name] for label, name in graph.outputs if name in values})


@dataclass(frozen=True)
class DeferredGraph:
    """A graph that `read` makes when somebody looks at it; what callers see of it is known."""

    signature: Signature
    read: Callable[[], Graph]
