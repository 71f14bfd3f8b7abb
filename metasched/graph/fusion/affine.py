"""What constants do to a value: a factor and an offset, whatever way they are written.

`((x - m) / sqrt(v + 1e-5)) * s + b` is `x` times a factor, plus an offset, where `m`, `v`, `s` and `b` are constants.
"""

from __future__ import annotations

from collections.abc import Callable

from metasched.graph.fusion.expressions import reads
from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.source import FloatLit, Name, Operation, Prefix, Read, Reduce, SourceExpr
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Affine:
    """`value * factor + offset`; None of either leaves it out. `steps`: operations by constants that make it.

    `terms` are what the offset is the sum of, up to signs.
    """

    value: SourceExpr
    factor: SourceExpr | None = None
    offset: SourceExpr | None = None
    steps: int = 0
    terms: tuple[SourceExpr, ...] = ()


IsConstant = Callable[[Read], bool]


def is_known(e: SourceExpr, constant: IsConstant) -> bool:
    """Whether an expression depends on constants alone; indices may be any but those that are data or values."""
    found = list(reads(e))
    inside = {id(node) for read in found for index in read.indices for node in index.walk()}
    bare = [node for node in e.walk() if isinstance(node, Name | Reduce) and id(node) not in inside]
    return not bare and all(constant(read) for read in found)


def affine_form(e: SourceExpr, constant: IsConstant) -> Affine:
    """An expression as a value that is no constant, and what constants do to it."""
    match e:
        case Prefix(op=UnOp.NEG, a=a):
            inner = affine_form(a, constant)
            return _scale_affine(inner, BinOp.MUL, FloatLit(-1.0))
        case Operation(op=BinOp.ADD | BinOp.SUB | BinOp.MUL | BinOp.DIV as op, a=a, b=b):
            if is_known(b, constant):
                inner = affine_form(a, constant)
                return _shift_affine(inner, op, b) if op in (BinOp.ADD, BinOp.SUB) else _scale_affine(inner, op, b)
            if is_known(a, constant) and op is not BinOp.DIV:
                inner = affine_form(b, constant)
                if op is BinOp.MUL:
                    return _scale_affine(inner, op, a)
                return _shift_affine(
                    inner if op is BinOp.ADD else _scale_affine(inner, BinOp.MUL, FloatLit(-1.0)), BinOp.ADD, a
                )
    return Affine(e)


def _scale_affine(inner: Affine, op: BinOp, by: SourceExpr) -> Affine:
    factor: SourceExpr = by
    if inner.factor is not None or op is not BinOp.MUL:
        factor = Operation(op, inner.factor or FloatLit(1.0), by)
    offset = None if inner.offset is None else Operation(op, inner.offset, by)
    terms = tuple(Operation(op, term, by) for term in inner.terms)
    return Affine(inner.value, factor, offset, inner.steps + 1, terms)


def _shift_affine(inner: Affine, op: BinOp, by: SourceExpr) -> Affine:
    if inner.offset is None:
        offset: SourceExpr = by if op is BinOp.ADD else Prefix(UnOp.NEG, by)
    else:
        offset = Operation(op, inner.offset, by)
    return Affine(inner.value, inner.factor, offset, inner.steps + 1, (*inner.terms, by))
