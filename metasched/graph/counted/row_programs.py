"""Programs that compute each row of their results from one row of what they read, and the same for a block of rows.

A row is what has one index along a dimension. Whole buffers may be read, too, and a row may go by its own number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, IntLit, Name, Operation, Read, Reduce, SourceExpr, SourceNode, Stage
from metasched.support.data_classes import dataclass

_NUMBER = ValueType(DType.I64, ())
# What an element takes that goes through memory, in terms of sums that stay in registers.
_OF_AN_ELEMENT = 64


@dataclass(frozen=True)
class RowProgram:
    """A program of which each stage goes by rows.

    Attributes:
        stages: the program.
        rows: the dimension along which rows lie, of all buffers but those that are read as a whole.

    """

    stages: Stages
    rows: Mapping[str, int]

    @property
    def terms(self) -> int:
        """How many elements and terms of sums it computes."""
        return sum(map(self.stages.iterations, self.stages.stages))

    @property
    def work(self) -> int:
        """What it takes to compute them, in terms of sums: what is no sum is read and written."""
        stages = self.stages.stages
        return sum(self.stages.iterations(s) * (1 if isinstance(s.value, Reduce) else _OF_AN_ELEMENT) for s in stages)

    def block_stages(self, whole: frozenset[str], size: int) -> Stages:
        """The program that computes `size` rows, where inputs have so many, too, but for those in `whole`.

        Where it needs the number of its first row, it has one more input, the last: how many blocks come before.
        """
        rows = {name: axis for name, axis in self.rows.items() if name not in whole}
        types = {
            name: _resize_type(t, rows[name], size) if name in rows else t for name, t in self.stages.types.items()
        }
        turn = "N"
        while turn in types:
            turn += "N"
        block = _Block(self.stages, rows, turn, size)
        stages = tuple(map(block.stage, self.stages.stages))
        inputs = self.stages.inputs
        if any(read.buffer == turn for stage in stages for read in reads(stage.value)):
            inputs, types = (*inputs, turn), {**types, turn: _NUMBER}
        return replace(self.stages, types=types, inputs=inputs, stages=stages)


def row_program(stages: Stages, outputs: Mapping[str, int], room: int) -> RowProgram | None:
    """A program whose outputs have `room` rows along these dimensions; None where it does not go by rows."""
    rows, whole = dict(outputs), set[str]()
    for stage in reversed(stages.stages):
        axes = {rows.get(name) for name in stage.targets}
        axis = axes.pop()
        if axes or axis is None or stages.types[stage.buffer].shape[axis] != room:
            return None
        own = stage.axes[axis].name
        if _is_scatter(stage, own):
            return None
        for read in reads(stage.value):
            along = _find_row_axis(read, own, stages.types, room)
            if along is None or rows.setdefault(read.buffer, along) != along:
                whole.add(read.buffer)
    if not whole <= {*stages.inputs}:
        return None
    return RowProgram(stages, {name: axis for name, axis in rows.items() if name not in whole})


def _is_scatter(stage: Stage, own: str) -> bool:
    """Whether data say to which row each term of a reduction goes: every block would go through all terms."""
    condition = stage.value.cond if isinstance(stage.value, Reduce) else None
    found = () if condition is None else condition.walk()
    return any(isinstance(e, Operation) and e.op is BinOp.EQ and Name(own) in (e.a, e.b) for e in found)


def _find_row_axis(read: Read, own: str, types: Mapping[str, ValueType], room: int) -> int | None:
    """The dimension of what is read that the row of a stage goes along."""
    shape = types[read.buffer].shape
    return next((n for n, i in enumerate(read.indices) if i == Name(own) and shape[n] == room), None)


def _resize_type(type_: ValueType, axis: int, extent: int) -> ValueType:
    return replace(type_, shape=tuple(extent if dim == axis else n for dim, n in enumerate(type_.shape)))


class _Block:
    """Stages as they are for a block, whose number is the input `turn`."""

    def __init__(self, stages: Stages, rows: Mapping[str, int], turn: str, size: int) -> None:
        self._stages = stages
        self._rows = rows
        self._turn = turn
        self._size = size

    def stage(self, stage: Stage) -> Stage:
        axis = self._rows[stage.buffer]
        own, room = stage.axes[axis].name, self._stages.types[stage.buffer].shape[axis]

        def change(node: SourceNode) -> SourceNode:
            if node == Name(own):
                return self._row(own, room)
            made = node.map(change)
            if isinstance(node, Read) and isinstance(made, Read) and node.buffer in self._rows:
                along = self._rows[node.buffer]
                places = enumerate(zip(node.indices, made.indices, strict=True))
                return replace(made, indices=tuple(i if dim == along else other for dim, (i, other) in places))
            return made

        value = change(stage.value)
        assert isinstance(value, SourceExpr), value
        return replace(stage, value=value)

    def _row(self, own: str, room: int) -> SourceExpr:
        """The number of a row among all, which is no larger than that of the last."""
        first = Operation(BinOp.MUL, Read(self._turn, ()), IntLit(self._size))
        return Apply("max", (Apply("min", (Operation(BinOp.ADD, first, Name(own)), IntLit(room - 1))), IntLit(0)))
