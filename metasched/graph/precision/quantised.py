"""Quantised numbers in programs, `scale * (q - zero)`: what bytes `q` they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages
from metasched.graph.precision.products import literal, names_in
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, IntLit, Name, Operation, Read, SourceExpr

BYTES = frozenset({DType.I8, DType.U8})
_WIDE = frozenset({DType.F32, DType.I32})


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
    found = _scaled(stage.value) if made.dtype in _WIDE else None
    if found is None or found[0].buffer not in inputs:
        return None
    q, zero, scale = found
    parts = [read for part in (zero, scale) if part is not None for read in reads(part)]
    given = stages.types[q.buffer]
    if given.dtype not in BYTES or given.shape != made.shape or any(read.buffer == q.buffer for read in parts):
        return None
    axes = tuple(axis.name for axis in stage.axes)
    if any(index not in (Name(axis), IntLit(0)) for index, axis in zip(q.indices, axes, strict=True)):
        return None
    return Quantised(inputs[q.buffer], axes, zero, scale, {read.buffer: inputs[read.buffer] for read in parts})


def _scaled(value: SourceExpr) -> tuple[Read, SourceExpr | None, SourceExpr | None] | None:
    """The bytes, the zero point and the scale of a dequantised element."""
    match value:
        case Apply("f32", (Operation(BinOp.MUL) as inner,)):
            return _scaled(inner)
        case Operation(BinOp.MUL, a, b):
            for whole, scale in ((a, b), (b, a)):
                if isinstance(whole, Apply) and whole.func == "f32" and (found := _shifted(whole.args[0])) is not None:
                    return (*found, scale)
            return None
    found = _shifted(value)
    return None if found is None else (*found, None)


def _shifted(value: SourceExpr) -> tuple[Read, SourceExpr | None] | None:
    match value:
        case Read() | Apply("i32", (Read(),)):
            return next(reads(value)), None
        case Operation(BinOp.SUB, Apply("i32", (Read() as q,)), zero):
            return q, None if literal(zero) == 0 else zero
    return None
