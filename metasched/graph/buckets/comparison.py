"""Two graphs of one model at different sizes: where they differ in numbers only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Array, Compute, Graph, LoopNode, Node, ShapeView
from metasched.graph.loop_node import LoopInput, LoopInputKind, LoopOutput, LoopOutputKind
from metasched.graph.value_type import ValueType
from metasched.ir.program import Program
from metasched.ir.source import FloatLit, IntLit, SourceNode, Stage
from metasched.support.conditions import require_or
from metasched.support.data_classes import dataclass


class NotAlike(Exception):
    """Two graphs that differ in more than numbers: `str()` says how."""


_require = require_or(NotAlike)


@dataclass(frozen=True)
class DimPlace:
    """A dimension of a value of the larger graph."""

    value: str
    dim: int


@dataclass(frozen=True)
class InnerDimPlace:
    """A dimension of a buffer inside the program of a node, by the node's number."""

    node: int
    buffer: str
    dim: int


@dataclass(frozen=True)
class NumberPlace:
    """A number in a stage of a node's program: the how-manieth part of the stage's value it is, in reading order."""

    node: int
    stage: int
    part: int


Place: TypeAlias = DimPlace | InnerDimPlace | NumberPlace


@dataclass(frozen=True)
class Differences:
    """What differs in a smaller graph.

    Attributes:
        numbers: what it has at places where the larger graph has another number.
        constants: its constants that are not the larger graph's, by that one's names.
        bodies: what differs in the bodies of loops, by the numbers of these among the nodes.

    """

    numbers: Mapping[Place, float]
    constants: Mapping[str, Array]
    bodies: Mapping[int, Differences] = field(default_factory=dict)


def differences(largest: Graph, other: Graph) -> Differences:
    """Where a graph differs from that of the largest sizes. Raises NotAlike where these are not numbers alone."""
    return _Comparison(largest, other).compare()


@dataclass
class _Comparison:
    largest: Graph
    other: Graph
    names: dict[str, str] = field(default_factory=dict)  # of the other's values, in the larger graph
    numbers: dict[Place, float] = field(default_factory=dict)
    programs: dict[tuple[int, int], dict[Place, float]] = field(default_factory=dict)
    bodies: dict[int, Differences] = field(default_factory=dict)

    def compare(self) -> Differences:
        one, two = self.largest, self.other
        _require(len(one.inputs) == len(two.inputs), "they have not the same inputs")
        _require([label for label, _ in one.outputs] == [label for label, _ in two.outputs], "their outputs differ")
        _require(not one.counts, f"calls decide how many elements {', '.join(one.counts)} has, which is not compared")
        _require(len(one.nodes) == len(two.nodes), f"one has {len(one.nodes)} nodes, the other {len(two.nodes)}")
        for ours, theirs in zip(one.inputs, two.inputs, strict=True):
            self._match_values(ours, theirs)
        for number, (node, counterpart) in enumerate(zip(one.nodes, two.nodes, strict=True)):
            self._node(number, node, counterpart)
        for (_, ours), (_, theirs) in zip(one.outputs, two.outputs, strict=True):
            self._match_values(ours, theirs)
        return Differences(self.numbers, dict(self._constants()), self.bodies)

    def _match_values(self, ours: str, theirs: str) -> None:
        """A value of the other graph is this one of the larger."""
        if self.names.setdefault(theirs, ours) != ours:
            raise NotAlike(f"`{theirs}` is `{self.names[theirs]}` in one place and `{ours}` in another")
        one, two = self.largest.types[ours], self.other.types[theirs]
        _require((ours in self.largest.constants) == (theirs in self.other.constants), f"only one knows `{ours}`")
        _require(one.dtype is two.dtype and one.rank == two.rank, f"`{ours}` is {one} in one, {two} in the other")
        for dim, (large, small) in enumerate(zip(one.shape, two.shape, strict=True)):
            self._number(DimPlace(ours, dim), large, small)

    def _number(self, place: Place, large: float, small: float) -> None:
        if large != small:
            self.numbers[place] = small

    def _node(self, number: int, one: Node, two: Node) -> None:
        _require(one.op == two.op, f"`{one.name}` is {one.op} in one, `{two.name}`, {two.op}, in the other")
        kinds = [_WORK_OF_NODES.get(type(own), "in place") for own in (one, two)]
        _require(kinds[0] == kinds[1], f"`{one.name}`, {one.op}, is {kinds[0]} in one, {kinds[1]} in the other")
        for ours, theirs, ends in ((one.inputs, two.inputs, "inputs"), (one.outputs, two.outputs, "outputs")):
            counts = f"{len(ours)} {ends} in one, {len(theirs)} in the other"
            _require(len(ours) == len(theirs), f"`{one.name}`, {one.op}, has {counts}")
        _require(type(one) in _WORK_OF_NODES, f"`{one.name}` is in place")
        for large, small in zip((*one.inputs, *one.outputs), (*two.inputs, *two.outputs), strict=True):
            self._match_values(large, small)
        if isinstance(one, Compute) and isinstance(two, Compute):
            for place, value in self._program(one.name, one.program, two.program).items():
                at = type(place)(**{**vars(place), "node": number})
                self.numbers[at] = value
        if isinstance(one, LoopNode) and isinstance(two, LoopNode):
            self._loop(number, one, two)

    def _loop(self, number: int, one: LoopNode, two: LoopNode) -> None:
        """Loops that take as many steps as a size of what they go through, and whose bodies are alike."""
        for loop in (one, two):
            _require(not loop.is_ended_by_data, f"`{loop.name}` is a loop that data may end, which is not compared")
        kinds = [[(own.kind, own.backwards) for own in _loop_connections(loop)] for loop in (one, two)]
        _require(kinds[0] == kinds[1], f"the loops of `{one.name}` differ")
        if one.most != two.most:
            through = [own.backwards for own in _loop_connections(one) if own.kind in _STEP_KINDS]
            _require(bool(through), f"`{one.name}` is a loop whose number of steps depends on sizes in another way")
            _require(not any(through), f"`{one.name}` goes backwards through as many elements as a size says")
        inner = _Comparison(one.body, two.body, programs=self.programs)
        self.bodies[number] = inner.compare()
        for ours, theirs in zip(_names(one), _names(two), strict=True):
            _require(ours == inner.names.get(theirs, theirs), f"the loops of `{one.name}` differ")

    def _program(self, name: str, one: Program, two: Program) -> Mapping[Place, float]:
        key = id(one), id(two)
        if key not in self.programs:
            self.programs[key] = dict(_program_numbers(name, one, two))
        return self.programs[key]

    def _constants(self) -> Iterator[tuple[str, Array]]:
        for theirs, array in self.other.constants.items():
            ours = self.names.get(theirs)
            if ours is not None and not _equal(self.largest.constants[ours], array):
                yield ours, array


# What nodes that are compared do.
_WORK_OF_NODES = {Compute: "a kernel", ShapeView: "a view", LoopNode: "a loop"}
# What a step has one element of.
_STEP_KINDS = (LoopInputKind.ELEMENTS, LoopOutputKind.ELEMENTS)


def _loop_connections(loop: LoopNode) -> list[LoopInput | LoopOutput]:
    return [*loop.takes, *loop.gives]


def _names(loop: LoopNode) -> Sequence[str]:
    """The values and labels of a body that its loop is tied to."""
    return [
        *(own.body for own in _loop_connections(loop)),
        loop.counter,
        *(name for state in sorted(loop.body.states.items()) for name in state),
    ]


def _program_numbers(name: str, one: Program, two: Program) -> Iterator[tuple[Place, float]]:
    """Where two programs differ; the places are those of a node 0."""
    if one.definition == two.definition:
        return
    ours, theirs = stages_of(one), stages_of(two)
    if ours is None or theirs is None:
        raise NotAlike(f"the program of `{name}` has scalars, or named sizes")
    _require(
        (ours.inputs, ours.outputs, ours.types.keys()) == (theirs.inputs, theirs.outputs, theirs.types.keys())
        and len(ours.stages) == len(theirs.stages),
        f"the programs of `{name}` differ",
    )
    yield from _inner_dims(name, ours, theirs)
    for number, (a, b) in enumerate(zip(ours.stages, theirs.stages, strict=True)):
        _require((a.buffer, a.axes, a.position) == (b.buffer, b.axes, b.position), f"the programs of `{name}` differ")
        yield from _stage_numbers(name, number, a, b)


def _inner_dims(name: str, ours: Stages, theirs: Stages) -> Iterator[tuple[Place, float]]:
    for buffer, type_ in ours.types.items():
        other: ValueType = theirs.types[buffer]
        _require(type_.dtype is other.dtype and type_.rank == other.rank, f"`{buffer}` of `{name}` differs")
        if buffer in ours.inputs or buffer in ours.outputs:
            continue
        for dim, (large, small) in enumerate(zip(type_.shape, other.shape, strict=True)):
            if large != small:
                yield InnerDimPlace(0, buffer, dim), small


def _stage_numbers(name: str, stage: int, a: Stage, b: Stage) -> Iterator[tuple[Place, float]]:
    parts = list(a.value.walk()), list(b.value.walk())
    _require(len(parts[0]) == len(parts[1]), f"the programs of `{name}` differ")
    for part, (x, y) in enumerate(zip(*parts, strict=True)):
        _require(type(x) is type(y), f"the programs of `{name}` differ")
        if isinstance(x, IntLit | FloatLit) and isinstance(y, IntLit | FloatLit):
            if x.value != y.value:
                yield NumberPlace(0, stage, part), y.value
        else:
            _require(_own_fields(x) == _own_fields(y), f"the programs of `{name}` differ")


def _own_fields(node: SourceNode) -> list[object]:
    """The fields of a part of a program besides the parts below it."""
    return [
        value
        for key, value in vars(node).items()
        if key != "at" and not isinstance(value, SourceNode) and not isinstance(value, tuple)
    ]


def _equal(one: Array, two: Array) -> bool:
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    same_place = one.__array_interface__["data"] == two.__array_interface__["data"] and one.strides == two.strides
    return same_place or one.tobytes() == two.tobytes()


__all__ = ["Differences", "DimPlace", "InnerDimPlace", "NotAlike", "NumberPlace", "Place", "differences"]
