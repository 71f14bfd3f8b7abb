"""Dimensions that a program always uses together become one, and views say so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from metasched.graph.fusion.stages import program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView, ValueType
from metasched.graph.layouts.constant_names import with_names_of
from metasched.graph.layouts.joining import joined
from metasched.graph.passes.dead_code import without_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass


@graph_pass(after=("bf16", "strips"))
def dimensions(graph: Graph, _: PassContext) -> Graph:
    """Dimensions that a program always uses together become one."""
    return _Flattening(graph, dict(graph.types), dict(graph.constants)).run()


@dataclass
class _Flattening:
    graph: Graph
    types: dict[str, ValueType]
    constants: dict[str, Array]
    nodes: list[Node] = field(default_factory=list)
    views: dict[tuple[str, ValueType], str] = field(default_factory=dict)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if isinstance(node, Compute):
                self._compute(node)
            else:
                self.nodes.append(node)
        made = replace(self.graph, nodes=tuple(self.nodes), types=self.types, constants=self.constants)
        before = {own: name for (name, _), own in self.views.items()}
        return with_names_of(without_dead_code(made), before)

    def _compute(self, node: Compute) -> None:
        form = stages_of(node.program)
        made = form if form is None else joined(form)
        if form is None or made is None or made == form:
            self.nodes.append(node)
            return
        given = zip(made.inputs, node.inputs, strict=True)
        inputs = tuple(self._viewed(node, name, made.types[buffer]) for buffer, name in given)
        outputs, back = list[str](), list[Node]()
        for buffer, name in zip(made.outputs, node.outputs, strict=True):
            if made.types[buffer] == self.types[name]:
                outputs.append(name)
                continue
            own = self._new(name, made.types[buffer])
            self.views[name, made.types[buffer]] = own
            outputs.append(own)
            back.append(ShapeView(node.name, node.op, own, name))
        program = program_of(made, node.program.name)
        self.nodes.append(replace(node, program=program, inputs=inputs, outputs=tuple(outputs)))
        self.nodes += back

    def _viewed(self, node: Compute, name: str, type_: ValueType) -> str:
        """A value in another shape."""
        if self.types[name] == type_:
            return name
        if (name, type_) not in self.views:
            own = self.views[name, type_] = self._new(name, type_)
            if name in self.constants:
                self.constants[own] = self.constants[name].reshape(type_.shape)
            else:
                self.nodes.append(ShapeView(node.name, node.op, name, own))
        return self.views[name, type_]

    def _new(self, like: str, type_: ValueType) -> str:
        """A new value."""
        number = 0
        while (name := f"{like}.as{number}") in self.types:
            number += 1
        self.types[name] = type_
        return name
