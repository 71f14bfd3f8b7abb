"""The reference, interpreted: a walk over the statements with NumPy scalars. For small programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    Load,
    Reducer,
    Select,
    Seq,
    Stmt,
    Store,
    Unary,
    UnOp,
    Var,
    no_position,
)
from metasched.reference.state import ExecutionError, State, initialisation

Value = Any  # a NumPy scalar of the expression's dtype; indices may be Python integers
Env = dict[str, Value]
_WRAPS = 2**63

_BINARY: Mapping[BinOp, Callable[[Value, Value], Value]] = MappingProxyType(
    {
        BinOp.ADD: lambda a, b: a + b,
        BinOp.SUB: lambda a, b: a - b,
        BinOp.MUL: lambda a, b: a * b,
        BinOp.DIV: lambda a, b: a / b,
        BinOp.FLOORDIV: lambda a, b: a // b if b else b,
        BinOp.MOD: lambda a, b: a % b if b else b,
        BinOp.CEILDIV: lambda a, b: -(-a // b),
        BinOp.MIN: np.minimum,
        BinOp.MAX: np.maximum,
        BinOp.LT: lambda a, b: a < b,
        BinOp.LE: lambda a, b: a <= b,
        BinOp.GT: lambda a, b: a > b,
        BinOp.GE: lambda a, b: a >= b,
        BinOp.EQ: lambda a, b: a == b,
        BinOp.NE: lambda a, b: a != b,
    }
)


def _wins(reducer: Reducer, new: list[Value], old: list[Value]) -> bool:
    """Whether a value and its position come before others: NaN, then the best, then the lowest position."""
    (value, position), (best, at) = new, old
    if value != value or best != best:  # noqa: PLR0124 -- what a NaN is not
        return bool(value != value and (best == best or position < at))  # noqa: PLR0124
    better = value > best if reducer is Reducer.ARGMAX else value < best
    return bool(better or (value == best and position < at))


def interpret(func: Func, state: State) -> None:
    """Run `func` on the arrays of `state`. Raises ExecutionError."""
    with np.errstate(all="ignore"):
        _Interpreter(state).run(func.body, dict(state.scalars))


def _convert(value: Value, source: DType, dtype: DType) -> Value:
    """Integers wrap to the new type; floats round to nearest, to an integer towards zero and within its range."""
    if source.is_float and dtype.is_integer:
        return dtype.numpy.type(_whole(float(value), dtype))
    if dtype.is_half and not source.is_half:
        value = np.asarray(value).astype(np.float32)
    return np.asarray(value).astype(dtype.numpy)[()]


def _whole(value: float, dtype: DType) -> int:
    limits = np.iinfo(dtype.numpy)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(limits.max if value > 0 else limits.min)
    return min(max(int(value), int(limits.min)), int(limits.max))


def _wrapped(value: Value) -> Value:
    """A Python integer (indices are) wrapped to 64 bits; NumPy integers already are."""
    if type(value) is int and not -_WRAPS <= value < _WRAPS:
        return (value + _WRAPS) % (2 * _WRAPS) - _WRAPS
    return value


class _Interpreter:
    def __init__(self, state: State) -> None:
        self.state = state

    def run(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Seq):
            for child in stmt.stmts:
                self.run(child, env)
        elif isinstance(stmt, For):
            for i in range(int(self.value(stmt.extent, env))):
                self.run(stmt.body, {**env, stmt.var: i})
        elif isinstance(stmt, Block):
            self.block(stmt, env)
        else:
            raise TypeError(f"not a statement: {stmt!r}")

    def block(self, block: Block, env: Env) -> None:
        inner = dict(self.state.scalars)
        for variable, binding in zip(block.iters, block.bindings, strict=True):
            inner[variable.name] = int(self.value(binding, env))
        if block.init is not None:
            zero, guards = initialisation(block)
            if all(self.value(e, env) == 0 for e in zero) and all(self.value(g, env) for g in guards):
                self.store(block.store, self.value(block.init, inner), inner)
                if block.index is not None:
                    self.store(block.index, self.value(no_position(block.index.value.dtype), inner), inner)
        if not all(self.value(g, env) for g in block.guards):
            return
        values = [self.value(store.value, inner) for store in block.stores]
        if block.reducer is not None:
            before = [self.load(store.buffer, store.indices, inner) for store in block.stores]
            if block.reducer.is_arg:
                values = values if _wins(block.reducer, values, before) else before
            else:
                values = [_BINARY[block.reducer.operation](before[0], values[0])]
        for store, value in zip(block.stores, values, strict=True):
            self.store(store, value, inner)

    def store(self, store: Store, value: Value, env: Env) -> None:
        name = store.buffer
        at = self.element(name, store.indices, env)
        self.state.arrays[name][at] = value
        self.state.written[name][at] = True

    def load(self, name: str, indices: tuple[Expr, ...], env: Env) -> Value:
        at = self.element(name, indices, env)
        written = self.state.written.get(name)
        if written is not None and not written[at]:
            raise ExecutionError(f"`{name}[{', '.join(map(str, at))}]` is read before it is written")
        return self.state.arrays[name][at]

    def element(self, name: str, indices: tuple[Expr, ...], env: Env) -> tuple[int, ...]:
        at = tuple(int(self.value(i, env)) for i in indices)
        shape = self.state.arrays[name].shape
        if not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
            raise ExecutionError(f"`{name}[{', '.join(map(str, at))}]` is outside its shape {shape}")
        return at

    def value(self, e: Expr, env: Env) -> Value:
        if isinstance(e, Const):
            return int(e.value) if e.type is DType.I64 else e.type.numpy.type(e.value)
        if isinstance(e, Var):
            return env[e.name]
        if isinstance(e, Load):
            return self.load(e.buffer, e.indices, env)
        if isinstance(e, Binary):
            return self.binary(e, env)
        if isinstance(e, Unary):
            value = self.value(e.a, env)
            return _wrapped(-value) if e.op is UnOp.NEG else np.bool_(not value)
        if isinstance(e, Select):
            return self.value(e.then if self.value(e.cond, env) else e.otherwise, env)
        if isinstance(e, Cast):
            return _convert(self.value(e.value, env), e.value.dtype, e.type)
        if isinstance(e, Call):
            return self.call(e, env)
        raise TypeError(f"not an expression: {e!r}")

    def binary(self, e: Binary, env: Env) -> Value:
        if e.op.is_logical:
            first = bool(self.value(e.a, env))
            decided = first is (e.op is BinOp.OR)
            return np.bool_(first if decided else self.value(e.b, env))
        return _wrapped(_BINARY[e.op](self.value(e.a, env), self.value(e.b, env)))

    def call(self, e: Call, env: Env) -> Value:
        args = [self.value(a, env) for a in e.args]
        if e.type.is_float:
            args = [np.float64(a) for a in args]
        return np.asarray(functions()[e.func].numpy(*args)).astype(e.type.numpy)[()]
