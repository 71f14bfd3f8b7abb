"""The graph of a network: values with types and shapes, nodes that compute them, and constants.

A node is a program of the language with bound sizes, or a view, which gives the same elements another shape. So a pass
reads and rewrites programs and knows nothing of ONNX. Nodes come in an order in which they can run. Values may be parts
of others: then they lie in the memory of those, and what joins or divides them computes nothing. A loop runs a graph of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np

from metasched.dtypes import DType
from metasched.errors import MetaschedError
from metasched.graph.counted_axis import CountedAxis
from metasched.graph.loop_node import ASSUMED_STEPS, ENDLESS, LoopInput, LoopInputKind, LoopOutput, LoopOutputKind
from metasched.graph.placement import Growth, ValuePart
from metasched.graph.value_type import ValueType, types_of
from metasched.ir.pitch import is_packed, is_pitched, packed_strides, span
from metasched.ir.program import Program
from metasched.support.cached import cached_property
from metasched.support.conditions import require_or
from metasched.support.data_classes import dataclass

Array = np.ndarray[Any, Any]

_INDENT = "  "


@dataclass(frozen=True)
class Compute:
    """A node that runs a program.

    Attributes:
        name: the node of the model that it comes from.
        op: that node's type.
        program: what it computes.
        inputs: values, one for each input of the program, in its order.
        outputs: values, one for each output of the program.

    """

    name: str
    op: str
    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def input_values(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """The values that the program's inputs are, by their names, or by those in another form of the program."""
        own = (buffer.name for buffer in self.program.inputs) if names is None else names
        return dict(zip(own, self.inputs, strict=True))


@dataclass(frozen=True)
class ShapeView:
    """A node whose output has its input's elements, in the same order, in another shape: nothing is computed."""

    name: str
    op: str
    input: str
    output: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output,)


@dataclass(frozen=True)
class InPlace:
    """A node that computes nothing, since its inputs and its output are parts of one memory (`Graph.parts`).

    Its output is a part of its input, as that of a slice; or its inputs are parts of its output, as those of a
    concatenation.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    output: str

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output,)


@dataclass(frozen=True, eq=False)
class LoopNode:
    """A node that runs its body for each step, while a condition holds and up to a number of steps.

    The body is a graph like any other, and passes rewrite it like any other: nothing of one side of its inputs and
    outputs is joined with anything of the other. What a step leaves to the next are the body's states
    (`Graph.states`).

    Attributes:
        name: the node of the model that it comes from.
        op: that node's type.
        body: what a step computes. Its inputs are those that `takes` names, and `counter`.
        inputs: values of the graph around it.
        outputs: values of the graph around it.
        takes: what each input is.
        gives: what each output is.
        most: the most steps that it takes whatever its inputs are; ENDLESS where they alone end it.
        counter: the body's input that is the number of the step, from 0 on; '' where it reads none.
        goes_on: the label of the body's output that says whether there is another step; '' where nothing does.

    """

    name: str
    op: str
    body: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    takes: tuple[LoopInput, ...]
    gives: tuple[LoopOutput, ...]
    most: int = ENDLESS
    counter: str = ""
    goes_on: str = ""

    def input_of(self, kind: LoopInputKind) -> str | None:
        """The first input of a kind."""
        return next((name for name, own in zip(self.inputs, self.takes, strict=True) if own.kind is kind), None)

    def inputs_of_kind(self, kind: LoopInputKind) -> Iterator[tuple[str, LoopInput]]:
        """The inputs of a kind."""
        return ((name, own) for name, own in zip(self.inputs, self.takes, strict=True) if own.kind is kind)

    def outputs_of_kind(self, kind: LoopOutputKind) -> Iterator[tuple[str, LoopOutput]]:
        """The outputs of a kind."""
        return ((name, own) for name, own in zip(self.outputs, self.gives, strict=True) if own.kind is kind)

    @property
    def is_ended_by_data(self) -> bool:
        """Whether it may take fewer steps than `most`."""
        asked = (LoopInputKind.LIMIT, LoopInputKind.CONDITION)
        return bool(self.goes_on) or any(own.kind in asked for own in self.takes)

    @property
    def assumed_steps(self) -> int:
        """How many steps it is taken to run where nobody runs it."""
        return min(self.most, ASSUMED_STEPS) if self.is_ended_by_data else self.most

    def defects(self, around: Graph) -> Iterator[str]:
        """What is not well formed of the loop in a graph whose values it reads, a sentence each."""
        if len(self.inputs) != len(self.takes) or len(self.outputs) != len(self.gives):
            yield "it has not as many inputs and outputs as it says what they are"
            return
        body, labels = self.body, dict(self.body.outputs)
        named = [own.body for own in self.takes if own.body] + [self.counter] * bool(self.counter)
        if sorted(named) != sorted(body.inputs):
            yield f"its body has the inputs {sorted(body.inputs)}, and is given {sorted(named)}"
            return
        if {own.body for _, own in self.inputs_of_kind(LoopInputKind.STATE)} != body.states.keys():
            yield f"its body has the states {sorted(body.states)}, which are others than begin"
            return
        if self.goes_on and (self.goes_on not in labels or not _is_one(body.types[labels[self.goes_on]], DType.BOOL)):
            yield f"`{self.goes_on}` of its body is no condition"
        yield from self._type_mismatches(around, [around.types[name] for name in self.inputs])

    def _type_mismatches(self, around: Graph, types: Sequence[ValueType]) -> Iterator[str]:
        """Inputs and outputs of other types than the body says."""
        body, labels = self.body, dict(self.body.outputs)
        for name, own, have in zip(self.inputs, self.takes, types, strict=True):
            if own.kind is LoopInputKind.LIMIT:
                fits = _is_one(have, DType.I64)
            elif own.kind is LoopInputKind.CONDITION:
                fits = _is_one(have, DType.BOOL)
            elif own.kind is LoopInputKind.ELEMENTS:
                fits = self._is_row(have, body.types[own.body])
            else:
                fits = have == body.types[own.body]
            if not fits:
                yield f"its {own.kind.value} `{name}` is {have}"
        for name, made in zip(self.outputs, self.gives, strict=True):
            have = around.types[name]
            if made.kind is LoopOutputKind.STEPS:
                fits = _is_one(have, DType.I64)
            elif made.kind is LoopOutputKind.STATE:
                fits = have == body.types[made.body]
            else:
                fits = self._is_row(have, body.types[labels[made.body]])
            if not fits:
                yield f"its {made.kind.value} `{name}` is {have}"

    def _is_row(self, whole: ValueType, element: ValueType) -> bool:
        return whole.dtype is element.dtype and whole.shape == (self.most, *element.shape)


Node: TypeAlias = Compute | ShapeView | InPlace | LoopNode


def replace_reads(node: Node, same: Mapping[str, str]) -> Node:
    """A node that reads other values instead of some."""
    if not any(name in same for name in node.inputs):
        return node
    if isinstance(node, ShapeView):
        return replace(node, input=same.get(node.input, node.input))
    return replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))


@dataclass(frozen=True)
class KernelOfTask:
    """Nodes that run the same machine code.

    Attributes:
        task: the key of their task.
        pitches: the strides of the program's inputs, then outputs, in elements; () where there are no gaps.
        nodes: those nodes.

    """

    task: str
    pitches: tuple[tuple[int, ...], ...]
    nodes: tuple[Compute, ...]

    def pitched_strides(self, program: Program) -> Mapping[str, tuple[int, ...]]:
        """The strides that are not those of packed arrays, by the names in a program of the task."""
        names = [buffer.name for buffer in (*program.inputs, *program.outputs)]
        return {name: strides for name, strides in zip(names, self.pitches, strict=True) if strides}


class GraphError(MetaschedError):
    """A graph that is not well formed. No model makes one: it is a defect of what made the graph."""


_require = require_or(GraphError)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network with all sizes bound.

    Attributes:
        name: the model's.
        types: of every value, by name.
        inputs: the values that a call gives, in order.
        outputs: what a call returns: names in the model, and the values that they stand for.
        constants: weights and other values that are known, by name.
        nodes: what computes the other values, in an order in which they can run.
        parts: the values that lie in the memory of others.
        states: inputs that the network holds between calls, and the labels of the outputs that they are next.
        growth: what grows from call to call, if anything does.
        counts: outputs of which only so many elements along a dimension mean anything as another output says, by
            labels; those others are not returned.

    """

    name: str
    types: Mapping[str, ValueType]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    parts: Mapping[str, ValuePart] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    growth: Growth | None = None
    counts: Mapping[str, CountedAxis] = field(default_factory=dict)

    @property
    def hidden(self) -> frozenset[str]:
        """The labels of outputs that calls do not return."""
        return frozenset({*self.states.values(), *(count.label for count in self.counts.values())})

    @property
    def computes(self) -> Iterator[Compute]:
        """The nodes that run a program; those of a loop's body are not among them."""
        return (node for node in self.nodes if isinstance(node, Compute))

    @property
    def loops(self) -> Iterator[LoopNode]:
        """The nodes that run graphs."""
        return (node for node in self.nodes if isinstance(node, LoopNode))

    @cached_property
    def tasks(self) -> Mapping[str, tuple[Compute, ...]]:
        """Nodes with equal programs, names aside: by the programs' hashes, in the order of their first node."""
        found: dict[str, list[Compute]] = {}
        for node in self.computes:
            found.setdefault(node.program.structural_hash(), []).append(node)
        return {key: tuple(nodes) for key, nodes in found.items()}

    @property
    def weight_bytes(self) -> int:
        """Memory of all constants, those of loops' bodies among them."""
        return sum(_weight_sizes(self).values())

    @cached_property
    def roots(self) -> Mapping[str, tuple[str, int]]:
        """For every value, the one that has the memory in which it lies, and how many elements after its first.

        A part whose place depends on a position is its own.
        """
        above = {node.output: (node.input, 0) for node in self.nodes if isinstance(node, ShapeView)}
        above |= {name: (part.of, part.offset) for name, part in self.parts.items() if part.position is None}
        found: dict[str, tuple[str, int]] = {}
        for name in self.types:
            root, offset, way = name, 0, [name]
            while root in above:
                root, more = above[root]
                offset += more
                _require(root not in way, f"`{name}` is a part of itself")
                way.append(root)
            found[name] = root, offset
        return found

    def _memory(self, name: str) -> str:
        """The root in whose memory a value lies, wherever it begins there."""
        root = self.roots[name][0]
        return self.roots[self.parts[root].of][0] if root in self.parts else root

    def strides(self, name: str) -> tuple[int, ...]:
        """Elements between neighbours along each dimension of a value."""
        part = self.parts.get(name)
        return packed_strides(self.types[name].shape) if part is None else part.strides

    @cached_property
    def kernels(self) -> Mapping[str, KernelOfTask]:
        """What machine code is made for: nodes of one task whose arguments have the same strides, by keys of their own.

        The key of what has no gaps in its arguments is that of its task.
        """
        found: dict[str, KernelOfTask] = {}
        for task, nodes in self.tasks.items():
            for node in nodes:
                pitches = self._pitches(node)
                key = f"{task} {pitches}" if any(pitches) else task
                have = found.get(key, KernelOfTask(task, pitches, ()))
                found[key] = replace(have, nodes=(*have.nodes, node))
        return found

    def _pitches(self, node: Compute) -> tuple[tuple[int, ...], ...]:
        pairs = [(self.types[name].shape, self.strides(name)) for name in (*node.inputs, *node.outputs)]
        return tuple(() if is_packed(shape, strides) else strides for shape, strides in pairs)

    def __str__(self) -> str:
        return print_graph(self)

    def validate(self) -> None:
        """Raise GraphError where this is not well formed: names, order, types and shapes."""
        known = {*self.inputs, *self.constants}
        if len(known) != len(self.inputs) + len(self.constants):
            raise GraphError("an input has the name of another input, or of a constant")
        for name, array in self.constants.items():
            _require(name in self.types, f"the constant `{name}` has no type")
            have = (array.dtype, array.shape)
            want = (self.types[name].dtype.numpy, self.types[name].shape)
            _require(have == want, f"the constant `{name}` is {have}, and its type says {want}")
        for node in self.nodes:
            for name in node.inputs:
                if name not in known:
                    raise GraphError(f"`{node.name}` reads `{name}`, which nothing before it computes")
            for name in node.outputs:
                _require(name not in known, f"`{node.name}` computes `{name}`, which is there already")
                _require(name in self.types, f"`{name}`, of `{node.name}`, has no type")
                known.add(name)
            self._check_types(node)
        for label, name in self.outputs:
            _require(name in known, f"nothing computes the output `{label}` (`{name}`)")
        for name, part in self.parts.items():
            self._check_part(name, part)
        made = dict(self.outputs)
        for name, label in self.states.items():
            _require(name in self.inputs, f"the state `{name}` is no input")
            _require(label in made, f"the state `{name}` is next the output `{label}`, which is none")
            _require(self.types[name] == self.types[made[label]], f"the state `{name}` is no `{label}` of its type")
        for label, count in self.counts.items():
            _require(label in made and count.label in made, f"`{count.label}` counts `{label}`: one is no output")
            _require(0 <= count.axis < self.types[made[label]].rank, f"`{label}` has no dimension {count.axis}")

    def _check_part(self, name: str, part: ValuePart) -> None:
        _require(name in self.types and part.of in self.types, f"`{name}` is a part of `{part.of}`: one is no value")
        _require(name not in self.constants and name not in self.inputs, f"`{name}` is given, and no part of another")
        given, whole = self.types[name], self.types[part.of]
        _require(given.dtype is whole.dtype, f"`{name}` is {given}, and a part of `{part.of}`, {whole}")
        _require(
            is_pitched(given.shape, part.strides), f"`{name}` has the shape {given.shape}, and strides {part.strides}"
        )
        begin = end = part.offset
        if part.position is not None:
            _require(part.of in self.states, f"`{name}` begins at a position of `{part.of}`, which is no state")
            begin += part.position.lowest * part.position.step
            end += part.position.highest * part.position.step
        end, size = end + span(given.shape, part.strides), span(whole.shape, self.strides(part.of))
        _require(begin >= 0 and end <= size, f"`{name}` lies outside of `{part.of}`, which it is a part of")

    def _check_types(self, node: Node) -> None:
        if isinstance(node, LoopNode):
            for defect in node.defects(self):
                raise GraphError(f"the loop `{node.name}`: {defect}")
            node.body.validate()
            return
        if isinstance(node, ShapeView):
            given, made = self.types[node.input], self.types[node.output]
            if given.dtype is not made.dtype or given.size != made.size:
                raise GraphError(f"the view `{node.name}` is of {given} as {made}")
            return
        if isinstance(node, InPlace):
            roots = {self._memory(name) for name in (*node.inputs, node.output)}
            _require(len(roots) == 1, f"`{node.name}` is in place, and its values lie in {sorted(roots)}")
            return
        ends = (("input", node.inputs), ("output", node.outputs))
        for (what, names), declared in zip(ends, types_of(node.program), strict=True):
            if len(declared) != len(names):
                raise GraphError(f"`{node.name}` has {len(names)} {what}s, its program {len(declared)}")
            for type_, name in zip(declared, names, strict=True):
                if type_ != self.types[name]:  # what `_require` would say takes longer to write than to check
                    said = f"is {self.types[name]}, and its program says {type_}"
                    raise GraphError(f"the {what} `{name}` of `{node.name}` {said}")


def _weight_sizes(graph: Graph) -> dict[str, int]:
    """Bytes of constants by name. Bodies call what they have from the graph around them as that does."""
    found = {name: graph.types[name].nbytes for name in graph.constants}
    for loop in graph.loops:
        found |= _weight_sizes(loop.body)
    return found


def _is_one(type_: ValueType, dtype: DType) -> bool:
    return type_.dtype is dtype and type_.size == 1


def print_graph(graph: Graph) -> str:
    """The text of a graph, and after it the programs that its nodes run."""
    tasks = dict(_tasks(graph))
    numbers = {key: number for number, key in enumerate(tasks)}
    outputs = ", ".join(label for label, _ in graph.outputs)
    head = f"network {graph.name}({_describe_types(graph, graph.inputs)}) -> ({outputs}):"
    lines = [head, *(_INDENT + line for line in _lines(graph, numbers))]
    for number, program in enumerate(tasks.values()):
        lines += ["", f"# task {number}", str(program).rstrip()]
    return "\n".join(lines) + "\n"


def _tasks(graph: Graph) -> Iterator[tuple[str, Program]]:
    """The distinct programs of a graph, and of the bodies of its loops, by their hashes."""
    yield from ((key, nodes[0].program) for key, nodes in graph.tasks.items())
    for loop in graph.loops:
        yield from _tasks(loop.body)


def _lines(graph: Graph, numbers: Mapping[str, int]) -> Iterator[str]:
    for name in graph.constants:
        yield f"const {name}: {graph.types[name]}"
    for node in graph.nodes:
        if isinstance(node, LoopNode):
            yield from _loop(graph, node, numbers)
        else:
            yield f"{_describe_types(graph, node.outputs)} = {_call(node, numbers)}"
    for name, part in graph.parts.items():
        moved = "" if part.position is None else f" + {part.position.step}*{part.position.input}"
        yield f"{name} lies in {part.of} from element {part.offset}{moved} on, strides {list(part.strides)}"
    for name, label in graph.states.items():
        yield f"state {name} is next {label}"
    for label, count in graph.counts.items():
        yield f"{label} has as many elements along its dimension {count.axis} as {count.label} says"
    for label, name in graph.outputs:
        if label != name:
            yield f"return {label} = {name}"


def _call(node: Node, numbers: Mapping[str, int]) -> str:
    arguments = ", ".join(node.inputs)
    if isinstance(node, Compute):
        task = numbers[node.program.structural_hash()]
        return f"{node.program.name}({arguments})  # task {task}, {node.op} `{node.name}`"
    kind = "view" if isinstance(node, ShapeView) else "in place"
    return f"{kind}({arguments})  # {node.op} `{node.name}`"


def _loop(graph: Graph, loop: LoopNode, numbers: Mapping[str, int]) -> Iterator[str]:
    body, labels = loop.body, dict(loop.body.outputs)
    yield f"loop {', '.join(_ends(loop)) or 'without end'}:  # {loop.op} `{loop.name}`"
    if loop.counter:
        yield f"{_INDENT}{loop.counter}: {body.types[loop.counter]} counts the steps"
    for name, own in loop.inputs_of_kind(LoopInputKind.STATE):
        yield f"{_INDENT}{own.body}: {body.types[own.body]} begins as {name}"
    for name, own in loop.inputs_of_kind(LoopInputKind.ELEMENTS):
        way = ", from the last on" if own.backwards else ""
        yield f"{_INDENT}{own.body}: {body.types[own.body]} goes through {name}{way}"
    for name, own in loop.inputs_of_kind(LoopInputKind.WHOLE):
        if own.body != name:
            yield f"{_INDENT}{own.body}: {body.types[own.body]} is {name}"
    yield from (_INDENT + line for line in _lines(body, numbers))
    if loop.goes_on:
        yield f"{_INDENT}while {labels[loop.goes_on]}"
    for name, made in zip(loop.outputs, loop.gives, strict=True):
        what = {
            LoopOutputKind.STEPS: "how many steps there were",
            LoopOutputKind.STATE: f"the last {made.body}",
            LoopOutputKind.ELEMENTS: f"each {labels.get(made.body)}{', from the last on' if made.backwards else ''}",
        }
        yield f"{name}: {graph.types[name]} = {what[made.kind]}"


def _ends(loop: LoopNode) -> Iterator[str]:
    if loop.most < ENDLESS:
        yield f"up to {loop.most} steps" if loop.is_ended_by_data else f"{loop.most} steps"
    for kind, text in ((LoopInputKind.LIMIT, "up to {}"), (LoopInputKind.CONDITION, "if {}")):
        name = loop.input_of(kind)
        if name is not None:
            yield text.format(name)


def _describe_types(graph: Graph, names: Iterable[str]) -> str:
    return ", ".join(f"{name}: {graph.types[name]}" for name in names)
