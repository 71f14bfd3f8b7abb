"""Conditions as what they ask for, all of which has to hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from metasched.ir.nodes import Binary, BinOp, Expr


def conjuncts(condition: Expr) -> list[Expr]:
    """What a condition asks for, in order."""
    if isinstance(condition, Binary) and condition.op is BinOp.AND:
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """The condition that asks for all of some, of which there is one at least."""
    return reduce(lambda a, b: Binary(BinOp.AND, a, b), conditions)
