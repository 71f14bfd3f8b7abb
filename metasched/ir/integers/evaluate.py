"""Evaluating integer expressions over arrays: a row per candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Select, Unary, UnOp, Var

Value = Any  # a NumPy array of rows, or a scalar that broadcasts


def _ceildiv(a: Value, b: Value) -> Value:
    return -(np.negative(a) // b)


BINARY: Mapping[BinOp, Callable[[Value, Value], Value]] = {
    BinOp.ADD: np.add,
    BinOp.SUB: np.subtract,
    BinOp.MUL: np.multiply,
    BinOp.DIV: np.true_divide,
    BinOp.FLOORDIV: np.floor_divide,
    BinOp.MOD: np.mod,
    BinOp.CEILDIV: _ceildiv,
    BinOp.MIN: np.minimum,
    BinOp.MAX: np.maximum,
    BinOp.LT: np.less,
    BinOp.LE: np.less_equal,
    BinOp.GT: np.greater,
    BinOp.GE: np.greater_equal,
    BinOp.EQ: np.equal,
    BinOp.NE: np.not_equal,
    BinOp.AND: np.logical_and,
    BinOp.OR: np.logical_or,
    BinOp.BIT_AND: np.bitwise_and,
    BinOp.BIT_OR: np.bitwise_or,
    BinOp.BIT_XOR: np.bitwise_xor,
    BinOp.SHIFT_LEFT: np.left_shift,
    BinOp.SHIFT_RIGHT: np.right_shift,
}


class Evaluator:
    """Several expressions as one straight line of array operations; common parts are computed once.

    Cost: one NumPy operation over all rows per distinct node.
    """

    def __init__(self, exprs: Sequence[Expr]) -> None:
        self._slots: dict[Expr, int] = {}
        self._steps: list[tuple[Callable[..., Value], tuple[int, ...]]] = []
        self._leaves: list[tuple[int, Const | Var]] = []
        self._outputs = [self._place(e) for e in exprs]

    def _place(self, e: Expr) -> int:
        slot = self._slots.get(e)
        if slot is not None:
            return slot
        operation, operands = _operation(e)
        args = tuple(self._place(x) for x in operands)
        slot = self._slots[e] = len(self._steps)
        if isinstance(e, Const | Var):
            self._leaves.append((slot, e))
        self._steps.append((operation, args))
        return slot

    def __call__(self, env: Mapping[str, Value]) -> list[Value]:
        """Values of the expressions, in order; variables come from `env` (int64 arrays or integers)."""
        values: list[Value] = [None] * len(self._steps)
        for slot, leaf in self._leaves:
            values[slot] = leaf.value if isinstance(leaf, Const) else env[leaf.name]
        for slot, (operation, args) in enumerate(self._steps):
            if args:
                values[slot] = operation(*[values[a] for a in args])
        return [values[slot] for slot in self._outputs]


def _operation(e: Expr) -> tuple[Callable[..., Value], tuple[Expr, ...]]:
    if isinstance(e, Binary):
        return BINARY[e.op], (e.a, e.b)
    if isinstance(e, Unary):
        return (np.negative if e.op is UnOp.NEG else np.logical_not), (e.a,)
    if isinstance(e, Select):
        return np.where, (e.cond, e.then, e.otherwise)
    if isinstance(e, Cast) and not e.value.dtype.is_float:
        return partial(_cast, e.type.numpy), (e.value,)
    if isinstance(e, Const | Var):
        return _leaf, ()
    raise TypeError(f"{type(e).__name__} has no value at scheduling time")


def _cast(dtype: np.dtype[Any], value: Value) -> Value:
    return np.asarray(value).astype(dtype)


def _leaf() -> Value:
    raise AssertionError("leaves are filled in before the steps run")


def evaluate(e: Expr, env: Mapping[str, Value]) -> Value:
    """The value of one expression; see `Evaluator` for many."""
    return Evaluator([e])(env)[0]
