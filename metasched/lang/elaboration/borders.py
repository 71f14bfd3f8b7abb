"""Functions that bring an index into a range: what is read beyond a border. Each stands for minima and maxima."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, At, IntLit, Operation, SourceExpr
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class BorderFunction:
    """A function of the language that is short for others: `expand` takes its arguments and where it is written."""

    usage: str
    arity: int
    expand: Callable[..., SourceExpr]


def _clamp(at: At, x: SourceExpr, low: SourceExpr, high: SourceExpr) -> SourceExpr:
    return Apply("min", (Apply("max", (x, low), at=at), high), at=at)


def _mirror(at: At, x: SourceExpr, size: SourceExpr) -> SourceExpr:
    """Reflected once about the centre of the first element and of the last, and then clamped."""
    zero = IntLit(0, at=at)
    last = Operation(BinOp.SUB, size, IntLit(1, at=at), at=at)
    below = Apply("max", (x, Operation(BinOp.SUB, zero, x, at=at)), at=at)
    twice = Operation(BinOp.MUL, IntLit(2, at=at), last, at=at)
    above = Apply("min", (below, Operation(BinOp.SUB, twice, x, at=at)), at=at)
    return _clamp(at, above, zero, last)


BORDERS: Mapping[str, BorderFunction] = {
    "clamp": BorderFunction("clamp(x, low, high)", 3, _clamp),
    "mirror": BorderFunction("mirror(x, size)", 2, _mirror),
}
