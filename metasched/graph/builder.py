"""A graph while it is made.

What depends on small constants alone is computed at once, by the reference: so sizes that a model computes from shapes
are numbers when they are needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from metasched.errors import LanguageError
from metasched.graph.counted_axis import CountedAxis
from metasched.graph.errors import Unsupported
from metasched.graph.fusion.stages import parse_once
from metasched.graph.ir import Array, Compute, Graph, LoopNode, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.value_type import ValueType
from metasched.ir.program import Program
from metasched.reference.execution import reference
from metasched.runtime.addresses import data_pointer
from metasched.support.by_identity import Itself
from metasched.support.data_classes import dataclass
from metasched.target import Target

# Elements of each value that takes part in what is computed at load.
_MOST_FOLDED_ELEMENTS = 4096
# Elements times operations of a program that is run at load: the reference is slow.
_MOST_FOLDED_WORK = 100_000
# The bits of a quantised weight.
_BYTE = 8


@dataclass(frozen=True)
class GraphValue:
    """A value that a node can read.

    Attributes:
        name: its name in the graph.
        type: its element type and shape.
        constant: its elements, where they are known.
        depends: inputs of the network that it is computed from.
        bits: of integers that the model has in fewer bits than the type has, how many; 0 of any others.
        count: how many of its elements along a dimension there are, where only a call knows.
        sizes: of whole numbers that a call computes from such counts, what is known of each: an array of Python's
            numbers and of `DataSize`, of the value's shape.
        tally: of a number, the booleans of which it counts those that hold.
        elements: of a sequence of tensors, which no program reads, all of them; its type is that of its elements, and
            its shape says how many there are.

    """

    name: str
    type: ValueType
    constant: Array | None = field(default=None, compare=False, repr=False)
    depends: frozenset[str] = frozenset()
    bits: int = 0
    count: ValueCount | None = None
    sizes: Array | None = field(default=None, compare=False, repr=False)
    tally: Tally | None = field(default=None, compare=False)
    elements: tuple[GraphValue, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return self.type.rank


@dataclass(frozen=True)
class ValueCount:
    """How many elements of a value there are, which has room for all that there may be; the others are of no meaning.

    Attributes:
        number: the value that says it, one whole number.
        axis: the dimension that has so many.

    """

    number: GraphValue
    axis: int = 0


@dataclass(frozen=True)
class Tally:
    """How many booleans hold, so often: `condition` is the name of the value that has them."""

    condition: str
    times: int = 1


@dataclass(frozen=True)
class DataSize:
    """A size that data decide.

    Attributes:
        number: the value that says it, one i64 that is no less than zero.
        most: what it is at most.

    """

    number: GraphValue
    most: int


@dataclass(frozen=True)
class NodeOrigin:
    """What new values and nodes are named after: a node of the model, its type, and its first output."""

    node: str
    op: str
    value: str


# A node of the model, what it computes, and the number of a program of it.
FoldedPlace: TypeAlias = tuple[str, str, int]
NOTHING_DECIDED: Mapping[FoldedPlace, bool] = MappingProxyType({})


class Folding:
    """Which programs of small constants are computed at load.

    What was decided for one graph of a model is done for others of it after `begin_graph`, so that nodes are the same.
    A program is known by its place: the node that it is of, what that computes, and how many the node had before.
    """

    def __init__(self, decided: Mapping[FoldedPlace, bool] = NOTHING_DECIDED) -> None:
        """`decided`: of some programs, whether they are computed at load."""
        self._decided: dict[FoldedPlace, bool] = dict(decided)
        self._seen: Counter[tuple[str, str]] = Counter()
        self.made: dict[FoldedPlace, list[Array]] = {}

    @property
    def decisions(self) -> Mapping[FoldedPlace, bool]:
        """The decisions so far."""
        return dict(self._decided)

    def begin_graph(self) -> None:
        """Begin with another graph."""
        self._seen.clear()

    def place(self, origin: NodeOrigin) -> FoldedPlace:
        """The place of the next program of a node."""
        own = origin.node, origin.value
        self._seen[own] += 1
        return *own, self._seen[own]

    def decides(self, place: FoldedPlace, small: Callable[[], bool]) -> bool:
        """Whether a program is computed at load; in the first graph, where it is small."""
        if place not in self._decided:
            self._decided[place] = small()
        return self._decided[place]

    def keep(self, place: FoldedPlace, made: Sequence[Array]) -> None:
        """Remember what was computed, a graph after another."""
        self.made.setdefault(place, []).extend(made)


class GraphBuilder:
    """Values and nodes made so far.

    Attributes:
        is_compared: whether the graph is compared with those of other sizes: what differs in the number of its steps is
            a loop then.
        is_alone: whether it is compared with no graph of another size or length: where other nodes would do, a loop
            that data end may be taken.
        target: the CPU that the graph is for, where a node leaves open how exactly it computes; None where that is not
            said.

    """

    def __init__(self, folding: Folding | None = None, *, is_compared: bool = False) -> None:
        self.is_compared = is_compared
        self.is_alone = folding is None and not is_compared
        self.target: Target | None = None
        self._folding = folding or Folding()
        self._types: dict[str, ValueType] = {}
        self._constants: dict[str, Array] = {}
        # By where they are, which they stay as long as the arrays are kept.
        self._constants_at: dict[Hashable, str] = {}
        self._nodes: list[Node] = []
        self._makers: dict[str, tuple[Node, int]] = {}
        self._inputs: list[str] = []
        self._taken: dict[str, int] = {}
        self._folded_before: dict[Hashable, tuple[Array, ...]] = {}
        self._remembered: dict[Hashable, Array | None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def type_of(self, name: str) -> ValueType:
        """The type of a value, by its name."""
        return self._types[name]

    def maker(self, name: str) -> Node | None:
        """The node that computes a value, in this graph or in a loop's body; None for inputs and constants."""
        return self._makers[name][0] if name in self._makers else None

    def constant_of(self, name: str) -> Array | None:
        """The elements of a value that is a constant, by its name; None for any other."""
        return self._constants.get(name)

    def remember(self, key: Hashable, make: Callable[[], Array | None]) -> Array | None:
        """The array of a key, made once for this graph."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return self._remembered[key]

    def nodes_from(self, first: int) -> tuple[Node, ...]:
        """The nodes that were made after so many others."""
        return tuple(self._nodes[first:])

    def input(self, name: str, type_: ValueType) -> GraphValue:
        """A value that calls of the network give."""
        own = self._add_value(name, type_)
        self._inputs.append(own)
        return GraphValue(own, type_, depends=frozenset([name]))

    def parameter(self, like: str, type_: ValueType, depends: frozenset[str]) -> GraphValue:
        """A value that the steps of a loop give its body."""
        return GraphValue(self._add_value(like, type_), type_, depends=depends)

    def constant(self, name: str, array: Array, type_: ValueType) -> GraphValue:
        """A value that is known. Elements that are at one place in memory, such as some rows of weights that each step
        of a layer reads, are one value.
        """
        place = (data_pointer(array), array.strides, type_)
        own = self._constants_at.get(place)
        if own is None:
            own = self._constants_at[place] = self._add_value(name, type_)
            self._constants[own] = array
        return GraphValue(own, type_, self._constants[own])

    def view(self, origin: NodeOrigin, operand: GraphValue, shape: tuple[int, ...]) -> GraphValue:
        """An operand's elements in another shape."""
        type_ = ValueType(operand.type.dtype, shape)
        if type_.size != operand.type.size:
            raise Unsupported(f"{operand.type} has not the elements of the shape [{', '.join(map(str, shape))}]")
        if type_ == operand.type:
            return operand
        if operand.constant is not None:
            return self.constant(origin.value, operand.constant.reshape(shape), type_)
        name = self._add_value(origin.value, type_)
        self._add(ShapeView(origin.node, origin.op, operand.name, name))
        return GraphValue(name, type_, None, operand.depends)

    def program(
        self,
        origin: NodeOrigin,
        stages: Sequence[str],
        outputs: Mapping[str, ValueType],
        inputs: Mapping[str, GraphValue],
    ) -> tuple[GraphValue, ...]:
        """The outputs of a program: its stages are texts, which read `inputs` by these names.

        Inputs that no stage reads are left out. Raises Unsupported for what the language refuses.
        """
        if all(type_.size == 0 for type_ in outputs.values()):
            return tuple(self.constant(origin.value, np.empty(t.shape, t.dtype.numpy), t) for t in outputs.values())
        read = {name: operand for name, operand in inputs.items() if _reads(stages, name)}
        for name, type_ in [*outputs.items(), *((name, operand.type) for name, operand in read.items())]:
            if type_.size == 0:
                raise Unsupported(f"`{name}`, {type_}, has no elements, and the result has")
        program = self._parse(_program_text(origin.op, stages, outputs, read))
        folded = self._fold(origin, program, outputs, read)
        if folded is not None:
            return tuple(self.constant(origin.value, a, t) for a, t in zip(folded, outputs.values(), strict=True))
        names = tuple(self._add_value(origin.value, type_) for type_ in outputs.values())
        order = {buffer.name: read[buffer.name].name for buffer in program.inputs}
        self._add(Compute(origin.node, origin.op, program, tuple(order.values()), names))
        depends = frozenset().union(*(operand.depends for operand in read.values()))
        return tuple(
            GraphValue(name, type_, None, depends) for name, type_ in zip(names, outputs.values(), strict=True)
        )

    def graph(self, name: str, outputs: Sequence[tuple[str, GraphValue]]) -> Graph:
        """The graph that computes these outputs."""
        made = [(label, operand.name) for label, operand in outputs]
        counted = {label: operand.count for label, operand in outputs if operand.count is not None}
        counts = {label: CountedAxis(f"{count.number.name} as a size", count.axis) for label, count in counted.items()}
        made += {counts[label].label: count.number.name for label, count in counted.items()}.items()
        inputs, nodes = tuple(self._inputs), tuple(self._nodes)
        return Graph(name, self._types, inputs, tuple(made), self._constants, nodes, counts=counts)

    @contextmanager
    def body(self) -> Iterator[list[Node]]:
        """Nodes that are made meanwhile are those of a loop's body, and not of the graph around it."""
        around, self._nodes = self._nodes, []
        try:
            yield self._nodes
        finally:
            self._nodes = around

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Add nodes that were made as those of a body."""
        self._nodes += nodes

    def body_graph(
        self,
        origin: NodeOrigin,
        nodes: Sequence[Node],
        parameters: Sequence[GraphValue],
        outputs: Mapping[str, GraphValue],
        states: Mapping[str, str],
    ) -> tuple[Graph, tuple[str, ...]]:
        """The graph of a loop's body, whose inputs are its parameters and what it reads of the graph around it.

        Returns those, too, which have the same names there.
        """
        made = tuple((label, operand.name) for label, operand in outputs.items())
        own = {*(name for node in nodes for name in node.outputs), *(operand.name for operand in parameters)}
        read = dict.fromkeys([*(name for node in nodes for name in node.inputs), *(name for _, name in made)])
        free = [name for name in read if name not in own]
        constants = {name: self._constants[name] for name in free if name in self._constants}
        around = tuple(name for name in free if name not in constants)
        inputs = (*(operand.name for operand in parameters), *around)
        types = {name: self._types[name] for name in (*inputs, *constants, *own)}
        body = Graph(origin.node, types, inputs, made, constants, tuple(nodes), states=states)
        return remove_dead_code(body), around

    def loop(self, loop: LoopNode, types: Sequence[ValueType], depends: frozenset[str]) -> list[GraphValue]:
        """Add a loop, whose outputs are named after those that it has, and have these types."""
        names = tuple(self._add_value(like, type_) for like, type_ in zip(loop.outputs, types, strict=True))
        self._add(replace(loop, outputs=names))
        return [GraphValue(name, type_, None, depends) for name, type_ in zip(names, types, strict=True)]

    def is_same_value(self, one: GraphValue, other: GraphValue) -> bool:
        """Whether two values are computed alike: by equal programs, of values that are the same."""
        made = self._makers
        known: dict[tuple[str, str], bool] = {}

        def alike(a: str, b: str) -> bool:
            if a == b:
                return True
            if (a, b) not in known:
                known[a, b] = compared(a, b)
            return known[a, b]

        def compared(a: str, b: str) -> bool:
            if a in self._constants and b in self._constants:
                return np.array_equal(self._constants[a], self._constants[b]) and self._types[a] == self._types[b]
            if a not in made or b not in made:
                return False
            (left, m), (right, n) = made[a], made[b]
            if isinstance(left, Compute) and isinstance(right, Compute):
                equal = m == n and left.program == right.program
                return equal and all(map(alike, left.inputs, right.inputs))
            both = isinstance(left, ShapeView) and isinstance(right, ShapeView)
            return both and self._types[a] == self._types[b] and all(map(alike, left.inputs, right.inputs))

        return alike(one.name, other.name) or (one.tally is not None and one.tally == other.tally)

    def _add(self, node: Node) -> None:
        self._nodes.append(node)
        self._makers |= {name: (node, n) for n, name in enumerate(node.outputs)}

    def _parse(self, text: str) -> Program:
        try:
            return parse_once(text)
        except LanguageError as error:
            first = error.diagnostics[0]
            raise Unsupported(f"the language has no such program: {first.message}\n{text}") from error

    def _fold(
        self, origin: NodeOrigin, program: Program, outputs: Mapping[str, ValueType], read: Mapping[str, GraphValue]
    ) -> tuple[Array, ...] | None:
        """The results of a program of small constants; None where it has other inputs, or is not small."""
        if any(operand.constant is None for operand in read.values()):
            return None
        place = self._folding.place(origin)
        if not self._folding.decides(place, lambda: _is_small(program, outputs, read)):
            return None
        arrays = self._compute_constants(program, [read[buffer.name].constant for buffer in program.inputs])
        self._folding.keep(place, arrays)
        return arrays

    def _compute_constants(self, program: Program, given: Sequence[Array | None]) -> tuple[Array, ...]:
        """What a program computes of small constants: each of many equal layers computes the same of its shapes."""
        key = Itself(program), tuple(None if array is None else array.tobytes() for array in given)
        if key not in self._folded_before:
            made = reference(program)(*given)
            self._folded_before[key] = made if isinstance(made, tuple) else (made,)
        return tuple(array.copy() for array in self._folded_before[key])

    def _add_value(self, like: str, type_: ValueType) -> str:
        """A new value of a type: its name is like this one, and that of no other value."""
        name = like
        while name in self._types:
            self._taken[like] = self._taken.get(like, 0) + 1
            name = f"{like}.{self._taken[like]}"
        self._types[name] = type_
        return name


def _is_small(program: Program, outputs: Mapping[str, ValueType], read: Mapping[str, GraphValue]) -> bool:
    types = [*outputs.values(), *(operand.type for operand in read.values())]
    if any(type_.size > _MOST_FOLDED_ELEMENTS for type_ in types) or program.work.operations > _MOST_FOLDED_WORK:
        return False
    return not _widens_weights(read.values(), outputs.values())


def _widens_weights(read: Iterable[GraphValue], outputs: Iterable[ValueType]) -> bool:
    """Whether matrices of bytes are made wider: a pass may want to multiply the bytes, and others are folded later."""
    given = any(x.type.dtype.is_integer and x.type.dtype.bits == _BYTE and x.rank > 1 for x in read)
    return given and any(type_.dtype.bits > _BYTE for type_ in outputs)


def _reads(stages: Sequence[str], name: str) -> bool:
    pattern = re.compile(rf"\b{name}\[")
    return any(pattern.search(stage.partition("=")[2]) for stage in stages)


def _program_text(
    op: str, stages: Sequence[str], outputs: Mapping[str, ValueType], inputs: Mapping[str, GraphValue]
) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op.rpartition(":")[2]).lower()
    name = re.sub(r"\W", "_", name)
    arguments = ", ".join(
        f"{'const ' if operand.constant is not None else ''}{letter}: {operand.type}"
        for letter, operand in inputs.items()
    )
    made = ", ".join(f"{letter}: {type_}" for letter, type_ in outputs.items())
    if len(outputs) > 1:
        made = f"({made})"
    return f"program {name}({arguments}) -> {made}:\n" + "".join(f"    {stage}\n" for stage in stages)
