"""Constants whose elements indices say: masks that hide nothing, places in order, triangles.

Exporters write masks as constants, or as comparisons of places with one another. With indices in place of them a
program reads no mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import map_reads, reads, rewrite_expression
from metasched.graph.ir import Array
from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.source import (
    Apply,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Operation,
    Prefix,
    Read,
    SourceExpr,
    SourceNode,
)
from metasched.support.by_identity import remembered_weakly
from metasched.support.data_classes import dataclass

# Elements of a constant that are looked at: a mask of all pairs of 4096 places. A triangle of few is read as it is.
_MOST_ELEMENTS = 1 << 24
_LEAST_TRIANGLE = 1 << 8
_PLACES = (DType.I32, DType.I64)


@dataclass(frozen=True)
class SameTruth:
    """A mask that says the same of all elements."""

    value: bool


@dataclass(frozen=True)
class PlacesInOrder:
    """Whole numbers that grow by `step` from `first` on along `dimension`, the only one that has more than one."""

    dimension: int
    first: int
    step: int


@dataclass(frozen=True)
class Triangle:
    """One value where an index is at most another plus a number, and a second value elsewhere.

    Attributes:
        dtype: the element type, of floats or of truths.
        row, column: the dimensions, the only ones that have more than one.
        beyond: the value is `inside` where `column <= row + beyond`.
        inside: a float or a truth.
        outside: the other one.

    """

    dtype: DType
    row: int
    column: int
    beyond: int
    inside: float
    outside: float

    def condition(self, indices: tuple[SourceExpr, ...]) -> SourceExpr:
        """Whether an element is inside."""
        last = Operation(BinOp.ADD, indices[self.row], IntLit(self.beyond))
        return Operation(BinOp.LE, indices[self.column], last)

    def truth(self, indices: tuple[SourceExpr, ...]) -> SourceExpr:
        """What a triangle of truths says of an element."""
        inside = self.condition(indices)
        return inside if self.inside else Prefix(UnOp.NOT, inside)

    def number(self, indices: tuple[SourceExpr, ...]) -> SourceExpr:
        """An element of a triangle of floats."""
        value = IfElse(FloatLit(self.inside), self.condition(indices), FloatLit(self.outside))
        return Apply(self.dtype.value, (value,))


KnownConstant: TypeAlias = SameTruth | PlacesInOrder | Triangle


@remembered_weakly
def known_constant(array: Array, dtype: DType) -> KnownConstant | None:
    """What is known of a constant's elements; None where they have to be read."""
    if not 2 <= array.size <= _MOST_ELEMENTS:
        return None
    wide = [d for d, extent in enumerate(array.shape) if extent > 1]
    if dtype is DType.BOOL and bool((array == array.flat[0]).all()):
        return SameTruth(bool(array.flat[0]))
    if dtype in _PLACES and len(wide) == 1:
        steps = np.diff(array.reshape(-1))
        return PlacesInOrder(wide[0], int(array.flat[0]), int(steps[0])) if (steps == steps[0]).all() else None
    if (dtype is DType.BOOL or dtype.is_float) and len(wide) == 2 and array.size >= _LEAST_TRIANGLE:
        return _triangle(array, dtype, (wide[0], wide[1]))
    return None


def _triangle(array: Array, dtype: DType, wide: tuple[int, int]) -> Triangle | None:
    rows, columns = (array.shape[d] for d in wide)
    elements = array.reshape(rows, columns)
    inside, outside = elements[0, 0], elements[0, -1]
    beyond = int(np.count_nonzero(elements[0] == inside)) - 1

    def begins_as_one(count: int) -> bool:
        below = np.tri(count, columns, beyond, dtype=np.bool_)
        return bool((elements[:count] == np.where(below, inside, outside)).all())

    if inside == outside or not begins_as_one(1) or not begins_as_one(rows):  # weights differ in the first row
        return None
    return Triangle(dtype, *wide, beyond, inside.item(), outside.item())


def write_known_constants(value: SourceExpr, known: Mapping[str, KnownConstant]) -> SourceExpr:
    """An expression with what is known of constants in place of them, in conditions and in sums, by buffers' names."""
    if not any(read.buffer in known for read in reads(value)):
        return value
    return rewrite_expression(value, partial(_write_into, known))


def _write_into(known: Mapping[str, KnownConstant], node: SourceNode) -> SourceNode:
    """A part of an expression whose operands have what is known in place of them."""
    match node:
        case IfElse(cond=cond):
            return replace(node, cond=_truth(known, cond))
        case Prefix(op=UnOp.NOT, a=a):
            return replace(node, a=_truth(known, a))
        case Operation(op=op, a=a, b=b) if op.is_logical:
            return replace(node, a=_truth(known, a), b=_truth(known, b))
        case Operation(op=BinOp.ADD, a=a, b=b):
            return replace(node, a=_number(known, a), b=_number(known, b))
        case Operation(op=op) if op.is_comparison:
            return _compare_places(node, known)
    return node


def _truth(known: Mapping[str, KnownConstant], part: SourceExpr) -> SourceExpr:
    if not isinstance(part, Read):
        return part
    match known.get(part.buffer):
        case SameTruth(value):
            return BoolLit(value)
        case Triangle() as triangle if triangle.dtype is DType.BOOL:
            return triangle.truth(part.indices)
    return part


def _number(known: Mapping[str, KnownConstant], part: SourceExpr) -> SourceExpr:
    if not isinstance(part, Read):
        return part
    match known.get(part.buffer):
        case Triangle() as triangle if triangle.dtype.is_float:
            return triangle.number(part.indices)
    return part


def _compare_places(comparison: Operation, known: Mapping[str, KnownConstant]) -> Operation:
    """A comparison of places in order, of indices; itself where it reads what else."""
    if not all(isinstance(known.get(read.buffer), PlacesInOrder) for read in reads(comparison)):
        return comparison

    def place(read: Read) -> SourceExpr:
        order = known[read.buffer]
        assert isinstance(order, PlacesInOrder)
        by = Operation(BinOp.MUL, IntLit(order.step), read.indices[order.dimension])
        return Operation(BinOp.ADD, IntLit(order.first), by)

    return map_reads(comparison, place)
