"""The reference, interpreted: statements and expressions become Python functions that compute with NumPy scalars.

For small programs. Nothing is rewritten on the way: a node is a function that calls those of the nodes below it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from operator import itemgetter
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
Compute = Callable[[Env], Value]
Run = Callable[[Env], None]
_WRAPS = 2**63

_BINARY: Mapping[BinOp, Callable[[Value, Value], Value]] = MappingProxyType(
    {
        BinOp.ADD: operator.add,
        BinOp.SUB: operator.sub,
        BinOp.MUL: operator.mul,
        BinOp.DIV: operator.truediv,
        BinOp.FLOORDIV: lambda a, b: a // b if b else b,
        BinOp.MOD: lambda a, b: a % b if b else b,
        BinOp.CEILDIV: lambda a, b: -(-a // b),
        BinOp.MIN: np.minimum,
        BinOp.MAX: np.maximum,
        BinOp.LT: operator.lt,
        BinOp.LE: operator.le,
        BinOp.GT: operator.gt,
        BinOp.GE: operator.ge,
        BinOp.EQ: operator.eq,
        BinOp.NE: operator.ne,
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
        Translation(state).statement(func.body)(dict(state.scalars))


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


class Translation:
    """Statements and expressions as Python functions of what loops and variables are; each is looked at once."""

    def __init__(self, state: State) -> None:
        self.state = state

    def statement(self, stmt: Stmt) -> Run:
        if isinstance(stmt, Seq):
            return self.sequence(stmt)
        if isinstance(stmt, For):
            return self.loop(stmt)
        if isinstance(stmt, Block):
            return self.block(stmt)
        raise TypeError(f"not a statement: {stmt!r}")

    def sequence(self, seq: Seq) -> Run:
        children = [self.statement(child) for child in seq.stmts]

        def run(env: Env) -> None:
            for child in children:
                child(env)

        return run

    def loop(self, loop: For) -> Run:
        extent, body, name = self.value(loop.extent), self.statement(loop.body), loop.var

        def run(env: Env) -> None:
            inner = dict(env)
            for i in range(int(extent(env))):
                inner[name] = i
                body(inner)

        return run

    def block(self, block: Block) -> Run:
        scalars = self.state.scalars
        bindings = [(v.name, self.value(b)) for v, b in zip(block.iters, block.bindings, strict=True)]
        guards = [self.value(g) for g in block.guards]
        start, update = self.start(block), self.update(block)

        def run(env: Env) -> None:
            inner = dict(scalars)
            for name, binding in bindings:
                inner[name] = int(binding(env))
            if start is not None:
                start(env, inner)
            for guard in guards:
                if not guard(env):
                    return
            update(inner)

        return run

    def start(self, block: Block) -> Callable[[Env, Env], None] | None:
        """What writes the value that a reduction starts from, where its first instance is."""
        if block.init is None:
            return None
        first, conditions = initialisation(block)
        zero, guards = [self.value(e) for e in first], [self.value(g) for g in conditions]
        stores = [(self.store(block.store), self.value(block.init))]
        if block.index is not None:
            stores.append((self.store(block.index), self.value(no_position(block.index.value.dtype))))

        def run(env: Env, inner: Env) -> None:
            for e in zero:
                if e(env) != 0:
                    return
            for guard in guards:
                if not guard(env):
                    return
            for store, value in stores:
                store(value(inner), inner)

        return run

    def update(self, block: Block) -> Run:
        values = [self.value(store.value) for store in block.stores]
        stores = [self.store(store) for store in block.stores]
        before = [self.load(store.buffer, store.indices) for store in block.stores]
        reducer = block.reducer

        def write(new: list[Value], env: Env) -> None:
            for store, value in zip(stores, new, strict=True):
                store(value, env)

        if reducer is None:
            return lambda env: write([value(env) for value in values], env)

        def best(env: Env) -> None:
            assert reducer is not None
            new = [value(env) for value in values]
            old = [load(env) for load in before]
            write(new if _wins(reducer, new, old) else old, env)

        if reducer.is_arg:
            return best
        combine, (value,), (load,), (store,) = _BINARY[reducer.operation], values, before, stores

        def accumulate(env: Env) -> None:
            new = value(env)
            store(combine(load(env), new), env)

        return accumulate

    def store(self, store: Store) -> Callable[[Value, Env], None]:
        element = self.element(store.buffer, store.indices)
        array, written = self.state.arrays[store.buffer], self.state.written[store.buffer]

        def run(value: Value, env: Env) -> None:
            at = element(env)
            array[at] = value
            written[at] = True

        return run

    def load(self, name: str, indices: tuple[Expr, ...]) -> Compute:
        element, array, written = self.element(name, indices), self.state.arrays[name], self.state.written.get(name)
        if written is None:
            return lambda env: array[element(env)]

        def run(env: Env) -> Value:
            at = element(env)
            if not written[at]:
                raise ExecutionError(f"`{name}[{', '.join(map(str, at))}]` is read before it is written")
            return array[at]

        return run

    def element(self, name: str, indices: tuple[Expr, ...]) -> Callable[[Env], tuple[int, ...]]:
        """The place of an element, which is inside its array."""
        shape = self.state.arrays[name].shape
        dimensions = [(self.value(i), n) for i, n in zip(indices, shape, strict=True)]

        def run(env: Env) -> tuple[int, ...]:
            at, inside = [], True
            for index, size in dimensions:
                i = int(index(env))
                at.append(i)
                inside = inside and 0 <= i < size
            if not inside:
                raise ExecutionError(f"`{name}[{', '.join(map(str, at))}]` is outside its shape {shape}")
            return tuple(at)

        return run

    def value(self, e: Expr) -> Compute:
        if isinstance(e, Const):
            constant = int(e.value) if e.type is DType.I64 else e.type.numpy.type(e.value)
            return lambda env: constant
        if isinstance(e, Var):
            return itemgetter(e.name)
        if isinstance(e, Load):
            return self.load(e.buffer, e.indices)
        if isinstance(e, Binary):
            return self.logical(e) if e.op.is_logical else self.binary(e)
        if isinstance(e, Unary):
            a = self.value(e.a)
            return (lambda env: _wrapped(-a(env))) if e.op is UnOp.NEG else (lambda env: np.bool_(not a(env)))
        if isinstance(e, Select):
            condition, then, otherwise = self.value(e.cond), self.value(e.then), self.value(e.otherwise)
            return lambda env: then(env) if condition(env) else otherwise(env)
        if isinstance(e, Cast):
            value, source, dtype = self.value(e.value), e.value.dtype, e.type
            return lambda env: _convert(value(env), source, dtype)
        if isinstance(e, Call):
            return self.call(e)
        raise TypeError(f"not an expression: {e!r}")

    def logical(self, e: Binary) -> Compute:
        a, b, decides = self.value(e.a), self.value(e.b), e.op is BinOp.OR

        def run(env: Env) -> Value:
            first = bool(a(env))
            return np.bool_(first if first is decides else b(env))

        return run

    def binary(self, e: Binary) -> Compute:
        operation, a, b = _BINARY[e.op], self.value(e.a), self.value(e.b)

        def run(env: Env) -> Value:
            value = operation(a(env), b(env))
            return _wrapped(value) if type(value) is int else value

        return run

    def call(self, e: Call) -> Compute:
        args = [self.value(a) for a in e.args]
        function, dtype = functions()[e.func].numpy, e.type
        convert = np.float64 if dtype.is_float else _unchanged
        return lambda env: np.asarray(function(*[convert(a(env)) for a in args])).astype(dtype.numpy)[()]


def _unchanged(value: Value) -> Value:
    return value
