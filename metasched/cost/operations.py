"""What one instance of a statement computes, counted from its expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metasched.cost.conditions import by_index, sides_taken
from metasched.functions.declaration import DIVISION_COST
from metasched.functions.registry import functions
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Const, Expr, Load, Reducer, Select, Unary


@dataclass(frozen=True)
class Operations:
    """Counts for one instance: arithmetic, divisions, math functions, comparisons with selections, casts.

    `instructions` estimates vector instructions: a multiplication of floats that feeds a sum is one with it (FMA),
    divisions, math functions and products of integers count by their cost. `conversions` are casts of what is read,
    which are apart from them: there are as many as reads, and a register tile reads an operand once.
    """

    arithmetic: int
    divisions: int
    special: int
    choices: int
    casts: int
    instructions: float
    conversions: int = 0

    @property
    def flops(self) -> int:
        return self.arithmetic + self.divisions + self.special


def count(value: Expr, reducer: Reducer | None, ranges: Mapping[str, Expr]) -> Operations:
    """The operations of `value`, and of reducing it; index arithmetic does not count.

    `ranges` are the extents of the iteration variables. A selection by an index is one choice, as its condition is the
    same for many instances, and none where the condition always holds or never does. Where it is between what is read
    and a constant, it is no instruction of its own: what such reads cost depends on the schedule.
    """
    arithmetic = divisions = special = choices = casts = conversions = merged = 0
    cost = 0.0
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            continue
        if isinstance(node, Call):
            special += 1
            cost += functions()[node.func].cost
        elif isinstance(node, Binary) and (node.op.is_comparison or node.op.is_logical):
            choices += 1
        elif isinstance(node, Binary) and node.op in (BinOp.DIV, BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV):
            divisions += 1
        elif isinstance(node, Binary | Unary):
            arithmetic += 1
            cost += _extra_of_product(node)
        elif isinstance(node, Select) and by_index(node):
            taken = sides_taken(node, ranges)
            choices += len(taken) - 1
            # What is not read is zero in the register that a read under a mask fills.
            merged += len(taken) - 1 if isinstance(node.otherwise, Const) else 0
            stack.extend(taken)
            continue
        elif isinstance(node, Select):
            choices += 1
        elif isinstance(node, Cast):
            casts += 1
            conversions += isinstance(node.value, Load)
        stack.extend(child for child in node.children() if isinstance(child, Expr))
    fused = reducer is Reducer.SUM and isinstance(value, Binary) and value.op is BinOp.MUL and value.dtype.is_float
    instructions = cost + arithmetic + divisions * DIVISION_COST + choices - merged + casts - conversions
    if reducer is not None and reducer.is_arg:
        choices += 2  # whether the position moves, and the position
        instructions += 2
    if reducer is not None:
        arithmetic += 1
        instructions += 0 if fused else 1
    least = 0.0 if conversions else 1.0
    return Operations(arithmetic, divisions, special, choices, casts, float(max(instructions, least)), conversions)


def _extra_of_product(node: Binary | Unary) -> int:
    """Instructions that a product of integers takes beyond one: vectors multiply 16 bits at a time."""
    if not isinstance(node, Binary) or node.op is not BinOp.MUL or node.dtype.is_float:
        return 0
    return max(node.dtype.bits // 32, 1 if node.dtype.bits == 8 else 0)
