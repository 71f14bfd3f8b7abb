"""Expressions of programs: substitution, their types, and the operations that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from metasched.dtypes import INDEX, DType
from metasched.ir.nodes import BinOp
from metasched.ir.source import (
    Apply,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Name,
    Operation,
    Prefix,
    Read,
    Reduce,
    SourceExpr,
    SourceNode,
)

E = TypeVar("E", bound=SourceNode)

_DTYPES = {dtype.value: dtype for dtype in DType}
# What makes a whole number of a fraction: a difference in the last place may become one of a whole number.
ROUNDING_FUNCTIONS = frozenset({"rint", "floor", "ceil"} | {dtype.value for dtype in DType if not dtype.is_float})
# Operations of a math function, a division or a root, against an addition: what vector units take for them.
_FUNCTION_OPERATIONS = 8


def reads(e: SourceNode) -> Iterator[Read]:
    """The reads in an expression, in reading order; those in subscripts, too."""
    return iter(e.reads)


def names_in(e: SourceNode) -> frozenset[str]:
    """The index variables in an expression."""
    return frozenset(node.name for node in e.walk() if isinstance(node, Name))


def conjuncts(condition: SourceExpr) -> Iterator[SourceExpr]:
    """The conditions that all have to hold for a condition to hold."""
    if isinstance(condition, Operation) and condition.op is BinOp.AND:
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition


def conjunction(conditions: Sequence[SourceExpr]) -> SourceExpr:
    """The condition that asks for all of some, of which there is one at least."""
    return reduce(lambda a, b: Operation(BinOp.AND, a, b), conditions)


def substitute_names(e: E, names: Mapping[str, SourceExpr]) -> E:
    """An expression with other expressions for some variables."""
    if not names:
        return e

    def change(node: SourceNode) -> SourceNode:
        if isinstance(node, Name):
            return names.get(node.name, node)
        return node.map(change)

    return change(e)  # type: ignore[return-value]


def rewrite_expression(e: E, change: Callable[[SourceNode], SourceNode]) -> E:
    """An expression with each part changed, from the innermost outwards."""

    def visit(node: SourceNode) -> SourceNode:
        return change(node.map(visit))

    return visit(e)  # type: ignore[return-value]


def map_reads(e: E, change: Callable[[Read], SourceExpr]) -> E:
    """An expression with each read changed, from the innermost outwards."""
    return rewrite_expression(e, lambda node: change(node) if isinstance(node, Read) else node)


def dtype_of(e: SourceExpr, types: Mapping[str, DType]) -> DType | None:
    """The element type of an expression over buffers of known types; None where it consists of numbers alone."""
    match e:
        case Read(buffer=buffer):
            return types[buffer]
        case Name():
            return INDEX
        case BoolLit():
            return DType.BOOL
        case IntLit() | FloatLit():
            return None
        case Apply(func=func) if func in _DTYPES:
            return _DTYPES[func]
        case Apply(args=args):
            return next((found for a in args if (found := dtype_of(a, types)) is not None), None)
        case Operation(op=op, a=a, b=b):
            if op.is_comparison or op.is_logical:
                return DType.BOOL
            return dtype_of(a, types) or (None if op.is_shift else dtype_of(b, types))
        case IfElse(then=then, otherwise=otherwise):
            return dtype_of(then, types) or dtype_of(otherwise, types)
        case Prefix(a=a) | Reduce(operand=a):
            return dtype_of(a, types)
    raise TypeError(f"{type(e).__name__} is no part of a program")


def is_cast(e: SourceExpr) -> bool:
    """Whether an expression is a conversion to another element type."""
    return isinstance(e, Apply) and e.func in _DTYPES


def operations(e: SourceNode) -> int:
    """What an element of an expression costs, in additions; index arithmetic is free."""
    if isinstance(e, Read | Name):
        return 0
    if isinstance(e, IfElse) and not any(reads(e.cond)):
        return 1 + operations(e.then) + operations(e.otherwise)
    below = sum(operations(child) for child in e.children())
    if isinstance(e, Operation) and not e.op.is_logical:
        return below + (_FUNCTION_OPERATIONS if e.op is BinOp.DIV else 1)
    if isinstance(e, Apply) and not is_cast(e):
        return below + (1 if e.func in ("max", "min", "abs") else _FUNCTION_OPERATIONS)
    return below + isinstance(e, IfElse)
