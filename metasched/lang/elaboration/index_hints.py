"""What to write instead of a read whose index may leave its buffer."""

from __future__ import annotations

from dataclasses import replace

from metasched.ir.nodes import BinOp
from metasched.ir.source import IfElse, IntLit, Name, Operation, Read, SourceExpr
from metasched.ir.source_printer import print_source


def guard_read(read: Read, dim: int, extent: int, *, below: bool, above: bool) -> str:
    """The read, guarded on the sides on which its index leaves dimension `dim` of `extent` elements.

    A choice between two indices is one between two reads, whose guard then is its condition.
    """
    index = read.indices[dim]
    if isinstance(index, IfElse):
        then, otherwise = (_replace_index(read, dim, side) for side in (index.then, index.otherwise))
        return f"choose between reads: `{print_source(IfElse(then, index.cond, otherwise))}`"
    sides = []
    if below:
        sides.append(print_source(Operation(BinOp.GE, index, IntLit(0))))
    if above:
        sides.append(print_source(Operation(BinOp.LT, index, IntLit(extent))))
    return f"guard the read: `{print_source(read)} if {' and '.join(sides)} else 0`"


def _replace_index(read: Read, dim: int, index: SourceExpr) -> Read:
    return replace(read, indices=(*read.indices[:dim], index, *read.indices[dim + 1 :]))


def moved_axis(index: SourceExpr) -> str | None:
    """`i` of `i + 2`."""
    match index:
        case (
            Operation(op=BinOp.ADD, a=Name(name=name), b=IntLit())
            | Operation(op=BinOp.ADD, a=IntLit(), b=Name(name=name))
        ):
            return name
    return None
