"""Quantised numbers in programs, `scale * (q - zero)`: what bytes `q` they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import names_in, reads
from metasched.graph.fusion.stages import Stages
from metasched.graph.precision.products import literal
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, FloatLit, IntLit, Name, Operation, Read, SourceExpr, SourceNode
from metasched.support.data_classes import dataclass

BYTES = frozenset({DType.I8, DType.U8})
_WIDE_TYPES = frozenset({DType.F32, DType.I32})


@dataclass(frozen=True)
class Quantised:
    """A value that is `scale * (q - zero)`.

    Attributes:
        value: the bytes `q`, a value of the graph of the same shape.
        axes: the index variables that `zero` and `scale` are over.
        zero: of i32; None where it is zero.
        scale: of f32; None where it is one.
        given: values of the graph that `zero` and `scale` read, by the names that they have there.

    """

    value: str
    axes: tuple[str, ...]
    zero: SourceExpr | None = None
    scale: SourceExpr | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def varies(self) -> bool:
        """Whether it has several scales or zero points."""
        return any(part is not None and names_in(part) for part in (self.zero, self.scale))


def quantised_form(stages: Stages, inputs: Mapping[str, str]) -> Quantised | None:
    """What a program dequantises, or takes the zero points from; None where it does something else.

    `inputs` are the values of the graph that are its inputs, by the inputs' names.
    """
    if len(stages.stages) != 1:
        return None
    (stage,) = stages.stages
    made = stages.types[stage.buffer]
    found = dequantised_form(stage.value) if made.dtype in _WIDE_TYPES else None
    if found is None or not isinstance(found.byte, Read) or found.byte.buffer not in inputs:
        return None
    q, zero, scale = found.byte, found.zero, found.scale
    parts = [read for part in found.parts for read in reads(part)]
    given = stages.types[q.buffer]
    if given.dtype not in BYTES or given.shape != made.shape or any(read.buffer == q.buffer for read in parts):
        return None
    axes = tuple(axis.name for axis in stage.axes)
    if any(index not in (Name(axis), IntLit(0)) for index, axis in zip(q.indices, axes, strict=True)):
        return None
    return Quantised(inputs[q.buffer], axes, zero, scale, {read.buffer: inputs[read.buffer] for read in parts})


@dataclass(frozen=True)
class Dequantised:
    """An expression that makes a wider number of a byte.

    Attributes:
        value: the expression.
        byte: the part of it that is the byte: an element, or a cast.
        zero: what is taken from the byte; None where that is nothing.
        scale: what that is multiplied by; None where it is one.

    """

    value: SourceExpr
    byte: Read | Apply
    zero: SourceExpr | None
    scale: SourceExpr | None

    @property
    def parts(self) -> tuple[SourceExpr, ...]:
        """The zero point and the scale, as far as there are any."""
        return tuple(part for part in (self.zero, self.scale) if part is not None)

    def replace_byte(self, byte: SourceExpr) -> SourceExpr:
        """The expression with another byte in the place of its own."""

        def change(node: SourceNode) -> SourceNode:
            return byte if node is self.byte else node.map(change)

        made = change(self.value)
        assert isinstance(made, SourceExpr)
        return made


def dequantised_form(value: SourceExpr) -> Dequantised | None:
    """An expression as one that makes a wider number of a byte; None where it is none. Elements may be of any type."""
    found = _match_scaled(value)
    return None if found is None else Dequantised(value, *found)


_Parts = tuple[Read | Apply, SourceExpr | None, SourceExpr | None]


def _match_scaled(value: SourceExpr) -> _Parts | None:
    """The byte, the zero point and the scale of an expression that dequantises; None for any other."""
    match value:
        case Apply("f32", (Operation(BinOp.MUL) as inner,)):
            return _match_scaled(inner)
        case Operation(BinOp.MUL, a, b):
            for whole, scale in ((a, b), (b, a)):
                if (
                    isinstance(whole, Apply)
                    and whole.func == "f32"
                    and (found := _match_shifted(whole.args[0])) is not None
                ):
                    return (*found, scale)
            return None
    found = _match_shifted(value)
    return None if found is None else (*found, None)


def _match_shifted(value: SourceExpr) -> tuple[Read | Apply, SourceExpr | None] | None:
    match value:
        case Apply("i32", (inner,)) if (byte := _match_byte(inner)) is not None:
            return byte, None
        case Operation(BinOp.SUB, Apply("i32", (inner,)), zero) if (byte := _match_byte(inner)) is not None:
            return byte, None if literal(zero) == 0 else zero
    byte = _match_byte(value)
    return None if byte is None else (byte, None)


def _match_byte(value: SourceExpr) -> Read | Apply | None:
    if isinstance(value, Read) or (isinstance(value, Apply) and value.func in _BYTES):
        return value
    return None


_BYTES = frozenset(str(dtype) for dtype in BYTES)


# --- what quantises ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuantisedToSigned:
    """`i8(min(max(rounded + f32(zero), -128), 127))`: whole numbers as signed bytes; `zero` is None where it is 0."""

    rounded: Apply
    zero: Read | None

    def unsigned_bytes(self, zero: SourceExpr | None) -> SourceExpr:
        """The whole numbers as unsigned bytes, with another zero point."""
        whole = self.rounded if zero is None else Operation(BinOp.ADD, self.rounded, Apply("f32", (zero,)))
        low = Apply("max", (whole, FloatLit(0.0)))
        return Apply(str(DType.U8), (Apply("min", (low, FloatLit(255.0))),))


def quantised_to_signed(value: SourceExpr) -> QuantisedToSigned | None:
    """An expression as one that rounds and makes signed bytes of that; None where it is none."""
    match value:
        case Apply("i8", (Apply("min", (Apply("max", (whole, low)), high)),)):
            limits = np.iinfo(np.int8)
            if (literal(low), literal(high)) != (limits.min, limits.max):
                return None
        case _:
            return None
    match whole:
        case Apply("rint"):
            return QuantisedToSigned(whole, None)
        case Operation(BinOp.ADD, Apply("rint") as rounded, Apply("f32", (Read() as zero,))):
            return QuantisedToSigned(rounded, zero)
    return None
