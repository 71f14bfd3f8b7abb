"""A graph that is rewritten node by node, where nodes may compute with values in other shapes than they had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages, program_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView
from metasched.graph.layouts.constant_names import restore_constant_names
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@dataclass
class ViewedNodes:
    """The nodes of a graph so far, and its values in other shapes: views of them, or constants of their own."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    views: dict[tuple[str, ValueType], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types: dict[str, ValueType] = dict(self.graph.types)
        self.constants: dict[str, Array] = dict(self.graph.constants)

    def view(self, node: Compute, name: str, type_: ValueType) -> str:
        """A value in another shape, for a node that reads it."""
        if self.types[name] == type_:
            return name
        if (name, type_) not in self.views:
            own = self._new(name, type_)
            if name in self.constants:
                self.constants[own] = self.constants[name].reshape(type_.shape)
            else:
                self.nodes.append(ShapeView(node.name, node.op, name, own))
        return self.views[name, type_]

    def add(self, node: Compute, made: Stages, inputs: Sequence[str]) -> Mapping[str, str]:
        """Add a node that computes these stages, and views of its results in the shapes that they had.

        It takes the inputs that it reads: an index into a dimension of one element goes with that. Returns, by result,
        what the node makes in its place, where that has another shape.
        """
        own: dict[str, str] = {}
        for name, buffer in zip(node.outputs, made.outputs, strict=True):
            if made.types[buffer] != self.types[name]:
                own[name] = self._new(name, made.types[buffer])
        made, inputs = _drop_unread_inputs(made, inputs)
        program = program_of(made, node.program.name)
        outputs = tuple(own.get(name, name) for name in node.outputs)
        self.nodes.append(replace(node, program=program, inputs=tuple(inputs), outputs=outputs))
        self.nodes += [ShapeView(node.name, node.op, there, name) for name, there in own.items()]
        return own

    def result(self) -> Graph:
        """The graph of the nodes that were added, without those that nothing needs."""
        made = replace(self.graph, nodes=tuple(self.nodes), types=self.types, constants=self.constants)
        return restore_constant_names(remove_dead_code(made), {own: name for (name, _), own in self.views.items()})

    def _new(self, like: str, type_: ValueType) -> str:
        number = 0
        while (name := f"{like}.as{number}") in self.types:
            number += 1
        self.types[name] = type_
        self.views[like, type_] = name
        return name


def _drop_unread_inputs(stages: Stages, given: Sequence[str]) -> tuple[Stages, list[str]]:
    """Stages without inputs that none of them reads, and what is given for those that are left."""
    read = {one.buffer for stage in stages.stages for one in reads(stage.value)}
    kept = {own: name for own, name in zip(stages.inputs, given, strict=True) if own in read}
    return replace(stages, inputs=tuple(kept), consts=stages.consts & kept.keys()), list(kept.values())
