"""A graph whose loops are stretches of its nodes: what is planned, compiled and tuned.

The nodes of a body stand where its loop stood, and values have one name everywhere: what a body reads of the graph
around it is that value, and what a state is after the last step is the state itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from metasched.graph.ir import Array, Compute, Graph, InPlace, LoopNode, Node, ShapeView
from metasched.graph.loop_node import LoopInputKind, LoopOutputKind
from metasched.graph.placement import Position, ValuePart
from metasched.graph.text import fresh_name
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class FlatState:
    """A state of a body: `initial` is what it is in the first step, `following` what a step makes of it."""

    name: str
    initial: str
    following: str


@dataclass(frozen=True)
class FlatElements:
    """A value of a body that is an element of `whole` in each step: one that it reads, or one that it makes."""

    name: str
    whole: str
    backwards: bool


@dataclass(frozen=True)
class FlatLoop:
    """Nodes that run again and again.

    Attributes:
        name: the node of the model that it comes from.
        op: that node's type.
        first: the number of the first node.
        end: that after the last.
        most: the most steps.
        assumed_steps: how many there are taken to be where nobody runs it.
        limit: a value that says the most, too.
        condition: a value that says whether there is a first step.
        goes_on: a value that each step makes, which says whether there is another.
        counter: the number of the step, which nothing computes.
        steps: how many there were, which nothing computes.
        states: what steps leave to the next.
        reads: elements that each step reads.
        makes: elements that each step makes.
        depth: how many loops it is in.

    """

    name: str
    op: str
    first: int
    end: int
    most: int
    assumed_steps: int
    limit: str | None
    condition: str | None
    goes_on: str | None
    counter: str | None
    steps: str | None
    states: tuple[FlatState, ...]
    reads: tuple[FlatElements, ...]
    makes: tuple[FlatElements, ...]
    depth: int

    def rename_values(self, names: Mapping[str, str]) -> FlatLoop:
        """The loop with other names of values."""

        def rows(given: tuple[FlatElements, ...]) -> tuple[FlatElements, ...]:
            return tuple(FlatElements(names[row.name], names[row.whole], row.backwards) for row in given)

        return replace(
            self,
            limit=_rename(names, self.limit),
            condition=_rename(names, self.condition),
            goes_on=_rename(names, self.goes_on),
            states=tuple(FlatState(*(names[name] for name in (s.name, s.initial, s.following))) for s in self.states),
            reads=rows(self.reads),
            makes=rows(self.makes),
        )

    def contains(self, number: int) -> bool:
        """Whether a node is among those that it runs."""
        return self.first <= number < self.end


@dataclass(frozen=True)
class FlatGraph:
    """A graph without loops, and which of its nodes run again and again; loops come before those that are in them."""

    graph: Graph
    loops: tuple[FlatLoop, ...] = ()

    @property
    def outermost(self) -> list[int]:
        """The numbers of loops that are in no other."""
        return [n for n, loop in enumerate(self.loops) if not loop.depth]

    def inner_loops(self, number: int) -> list[int]:
        """The numbers of loops that are in one, and in no other that is in it."""
        depth, found = self.loops[number].depth, list[int]()
        for n in range(number + 1, len(self.loops)):
            if self.loops[n].depth <= depth:
                break
            if self.loops[n].depth == depth + 1:
                found.append(n)
        return found

    def loops_around(self, number: int) -> Iterator[FlatLoop]:
        """The loops that run a node, the outermost first."""
        return (loop for loop in self.loops if loop.contains(number))

    def assumed_runs(self, number: int) -> int:
        """How often a call is taken to run a node."""
        runs = 1
        for loop in self.loops_around(number):
            runs *= loop.assumed_steps
        return runs

    def runs_in_loops(self) -> dict[str, int]:
        """How often loops are taken to run a node of each task in a call, by its key: that of which they do most."""
        of_nodes = {id(node): self.assumed_runs(n) for n, node in enumerate(self.graph.nodes)}
        return {key: max(of_nodes[id(node)] for node in nodes) for key, nodes in self.graph.tasks.items()}


class JoinedConstants(Mapping[str, Array]):
    """Constants of several graphs, which are asked for an array when somebody looks at it."""

    def __init__(self, places: Mapping[str, tuple[Mapping[str, Array], str]]) -> None:
        """`places`: by name, where each is and how it is called there."""
        self._places = dict(places)

    def __getitem__(self, name: str) -> Array:
        constants, own = self._places[name]
        return constants[own]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def merge_same_arrays(found: FlatGraph) -> FlatGraph:
    """The graph in which an array that the graph around a loop has, and its body, too, is one constant."""
    if not found.loops:
        return found
    graph, first, same = found.graph, dict[tuple[int, ValueType], str](), dict[str, str]()
    for name, array in graph.constants.items():
        known = first.setdefault((id(array), graph.types[name]), name)
        if known != name:
            same[name] = known
    names = {**{name: name for name in graph.types}, **same}
    nodes = tuple(_rename_node(node, names) for node in graph.nodes if not isinstance(node, LoopNode))
    constants = {name: array for name, array in graph.constants.items() if name not in same}
    outputs = tuple((label, names[name]) for label, name in graph.outputs)
    loops = tuple(loop.rename_values(names) for loop in found.loops)
    return FlatGraph(replace(graph, nodes=nodes, constants=constants, outputs=outputs), loops)


def flat(graph: Graph) -> FlatGraph:
    """A graph with the nodes of its loops' bodies; itself where it has none."""
    return _Flattening(graph).flatten() if any(graph.loops) else FlatGraph(graph)


@dataclass
class _Flattening:
    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    loops: list[FlatLoop] = field(default_factory=list)
    depth: int = 0

    def flatten(self) -> FlatGraph:
        graph = self.graph
        self.types: dict[str, ValueType] = dict(graph.types)
        self.constants = {name: (graph.constants, name) for name in graph.constants}
        self.parts: dict[str, ValuePart] = {}
        names = self._add(graph, {name: name for name in graph.types})
        made = replace(
            graph,
            types=self.types,
            constants=JoinedConstants(self.constants),
            nodes=tuple(self.nodes),
            parts=self.parts,
            outputs=tuple((label, names[name]) for label, name in graph.outputs),
        )
        return FlatGraph(made, tuple(self.loops))

    def _add(self, graph: Graph, names: dict[str, str]) -> dict[str, str]:
        """Add the nodes of a graph, whose values have other names. Returns these, with those of states for outputs."""
        for node in graph.nodes:
            if isinstance(node, LoopNode):
                self._loop(node, names)
            else:
                self.nodes.append(_rename_node(node, names))
        for name, part in graph.parts.items():
            at = part.position
            moved = None if at is None else Position(names[at.input], at.step, at.lowest, at.highest)
            self.parts[names[name]] = replace(part, of=names[part.of], position=moved)
        return names

    def _loop(self, loop: LoopNode, names: dict[str, str]) -> None:
        kinds, body = LoopInputKind, loop.body
        inner = {own.body: names[name] for name, own in loop.inputs_of_kind(kinds.WHOLE)}
        inner |= {name: self._add_name(name, type_) for name, type_ in body.types.items() if name not in inner}
        self.constants |= {inner[name]: (body.constants, name) for name in body.constants}
        place, first = len(self.loops), len(self.nodes)
        self.depth += 1
        self._add(body, inner)
        self.depth -= 1
        labels = {label: inner[name] for label, name in body.outputs}
        for name, own in loop.outputs_of_kind(LoopOutputKind.STATE):
            names[name] = inner[own.body]
        # Those of its body, whose limits are known before its own, come after it.
        made = FlatLoop(
            name=loop.name,
            op=loop.op,
            first=first,
            end=len(self.nodes),
            most=loop.most,
            assumed_steps=loop.assumed_steps,
            limit=_rename(names, loop.input_of(kinds.LIMIT)),
            condition=_rename(names, loop.input_of(kinds.CONDITION)),
            goes_on=labels[loop.goes_on] if loop.goes_on else None,
            counter=inner[loop.counter] if loop.counter else None,
            steps=next((names[name] for name, _ in loop.outputs_of_kind(LoopOutputKind.STEPS)), None),
            states=tuple(
                FlatState(inner[own.body], names[name], labels[body.states[own.body]])
                for name, own in loop.inputs_of_kind(kinds.STATE)
            ),
            reads=tuple(
                FlatElements(inner[own.body], names[name], own.backwards)
                for name, own in loop.inputs_of_kind(kinds.ELEMENTS)
            ),
            makes=tuple(
                FlatElements(labels[own.body], names[name], own.backwards)
                for name, own in loop.outputs_of_kind(LoopOutputKind.ELEMENTS)
            ),
            depth=self.depth,
        )
        self.loops.insert(place, made)

    def _add_name(self, name: str, type_: ValueType) -> str:
        name = fresh_name(name, self.types)
        self.types[name] = type_
        return name


def _rename(names: Mapping[str, str], name: str | None) -> str | None:
    return None if name is None else names[name]


def _rename_node(node: Compute | ShapeView | InPlace, names: Mapping[str, str]) -> Node:
    """A node that reads and makes values of other names."""
    inputs = tuple(names[name] for name in node.inputs)
    if isinstance(node, Compute):
        return replace(node, inputs=inputs, outputs=tuple(names[name] for name in node.outputs))
    if isinstance(node, ShapeView):
        return replace(node, input=inputs[0], output=names[node.output])
    return replace(node, inputs=inputs, output=names[node.output])
