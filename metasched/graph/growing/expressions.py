"""Expressions of a program at several lengths as one that reads the length."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import reads
from metasched.graph.growing.sizes import LengthDependence, LengthLine, Lengths
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, Axis, FloatLit, IntLit, Name, Operation, Read, Reduce, SourceExpr, SourceNode
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class LengthReader:
    """Makes one expression of those at the samples.

    Attributes:
        lengths: the samples.
        name: what the length is called in the program: a scalar of i64.
        dtype: the type of numbers with a fraction.

    """

    lengths: Lengths
    name: str
    dtype: DType

    @property
    def length(self) -> Read:
        return Read(self.name, ())

    def join_parts(self, parts: Sequence[Any]) -> Any:
        """One node of source for those at the samples.

        Raises LengthDependence where they differ in more than numbers.
        """
        first = parts[0]
        if all(part == first for part in parts[1:]):
            return first
        if any(type(part) is not type(first) for part in parts):
            raise LengthDependence("it computes something else at some lengths than at others")
        if isinstance(first, IntLit):
            return self._number(self.lengths.line([part.value for part in parts]))
        if isinstance(first, FloatLit):
            whole = self._number(self.lengths.line([part.value for part in parts]))
            return Apply(str(self.dtype), (whole,))
        if isinstance(first, Reduce):
            return self._reduction(parts)
        compared = [f.name for f in fields(first) if f.compare]
        return replace(first, **{name: self._field([getattr(part, name) for part in parts]) for name in compared})

    def _field(self, values: Sequence[Any]) -> Any:
        first = values[0]
        if isinstance(first, SourceNode):
            return self.join_parts(values)
        if isinstance(first, tuple) and any(isinstance(item, SourceNode) for item in first):
            if len({len(value) for value in values}) != 1:
                raise LengthDependence("it has more terms at some lengths than at others")
            return tuple(self.join_parts(items) for items in zip(*values, strict=True))
        if any(value != first for value in values):
            raise LengthDependence("it computes something else at some lengths than at others")
        return first

    def _number(self, line: LengthLine) -> SourceExpr:
        if line.slope.denominator != 1 or line.constant.denominator != 1:
            raise LengthDependence("a number in it grows by a fraction")
        slope, constant = int(line.slope), int(line.constant)
        scaled: SourceExpr = self.length if slope == 1 else Operation(BinOp.MUL, self.length, IntLit(slope))
        return plus(scaled, constant)

    def _reduction(self, parts: Sequence[Reduce]) -> Reduce:
        """A reduction over all that there is room for, which takes the terms that are there."""
        axes, conditions = [], []
        operand, given = self.join_parts([p.operand for p in parts]), [p.cond for p in parts]
        cond = None if given[0] is None else self._field(given)
        for found in zip(*(part.axes for part in parts), strict=True):
            extents = [axis.extent.value for axis in found if isinstance(axis.extent, IntLit)]
            line = self.lengths.line(extents)
            if line.slope not in (0, 1):
                raise LengthDependence(f"a sum in it grows by {line.slope} terms for each that the size does")
            longest = int(line.evaluate(self.lengths.longest))
            axes.append(Axis(found[0].name, IntLit(longest)))
            if line.slope:
                conditions.append(Operation(BinOp.LT, Name(found[0].name), plus(self.length, int(line.constant))))
        for condition in conditions:
            cond = condition if cond is None else Operation(BinOp.AND, cond, condition)
        return replace(parts[0], axes=tuple(axes), operand=operand, cond=cond)


def plus(value: SourceExpr, constant: int) -> SourceExpr:
    """A sum of an expression and a number."""
    if not constant:
        return value
    op = BinOp.ADD if constant > 0 else BinOp.SUB
    return Operation(op, value, IntLit(abs(constant)))


def clamp_index(index: SourceExpr, extent: int) -> SourceExpr:
    """An index that is moved into a dimension where it would lie outside."""
    return Apply("max", (Apply("min", (index, IntLit(extent - 1))), IntLit(0)))


def reads_of(value: SourceExpr, names: Collection[str]) -> bool:
    """Whether an expression reads one of these buffers."""
    return any(read.buffer in names for read in reads(value))
