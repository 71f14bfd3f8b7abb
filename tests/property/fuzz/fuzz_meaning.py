"""What a program over 64-bit integers means, by its text alone: an evaluator of the tree that was parsed.

It shares nothing with what follows parsing, so that a mistake in extents, in proofs about conditions, or in the normal
form of index arithmetic, which the reference has as well, is seen. Every operation wraps at 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

import numpy as np

from metasched.dtypes import DType
from metasched.ir.nodes import BinOp, Reducer, UnOp
from metasched.ir.source import (
    Apply,
    Axis,
    BoolLit,
    IfElse,
    IntLit,
    Name,
    Operation,
    Prefix,
    ProgramDef,
    Read,
    Reduce,
    SourceExpr,
)

_TAKEN = (IntLit, BoolLit, Name, Operation, Prefix, Apply, IfElse, Read, Reduce, Axis)
_REDUCERS = {Reducer.SUM: lambda a, b: a + b, Reducer.MAX: max, Reducer.MIN: min}
# What a reduction is where none of its terms is there.
_OF_NOTHING = {Reducer.SUM: 0, Reducer.MAX: -(1 << 63), Reducer.MIN: (1 << 63) - 1}
_INTEGERS = (DType.I64, DType.I32, DType.U32, DType.U64)


def wrapped(value: int, bits: int = 64) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def _mod(a: int, b: int) -> int:
    return a % b if b else 0


def _left(a: int, places: int) -> int:
    return a << places if 0 <= places < _PLACES else 0


def _right(a: int, places: int) -> int:
    return a >> (places if 0 <= places < _PLACES else _PLACES)


_PLACES = 64
_OPERATIONS: Mapping[BinOp, Callable[[int, int], int]] = {
    BinOp.ADD: lambda a, b: a + b,
    BinOp.SUB: lambda a, b: a - b,
    BinOp.MUL: lambda a, b: a * b,
    BinOp.FLOORDIV: _floordiv,
    BinOp.MOD: _mod,
    BinOp.LT: lambda a, b: a < b,
    BinOp.LE: lambda a, b: a <= b,
    BinOp.GT: lambda a, b: a > b,
    BinOp.GE: lambda a, b: a >= b,
    BinOp.EQ: lambda a, b: a == b,
    BinOp.NE: lambda a, b: a != b,
    BinOp.BIT_AND: lambda a, b: a & b,
    BinOp.BIT_OR: lambda a, b: a | b,
    BinOp.BIT_XOR: lambda a, b: a ^ b,
    BinOp.SHIFT_LEFT: _left,
    BinOp.SHIFT_RIGHT: _right,
}
_PREFIXES: Mapping[UnOp, Callable[[int], int]] = {
    UnOp.NOT: lambda a: not a,
    UnOp.NEG: lambda a: wrapped(-a),
    UnOp.INVERT: lambda a: ~a,
}


def _clamp(a: int, low: int, high: int) -> int:
    return min(max(a, low), high)


def _mirror(a: int, size: int) -> int:
    """Reflected once, and what is farther off is at the other end."""
    return _clamp(2 * (size - 1) - a if a >= size else abs(a), 0, size - 1)


_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "max": max,
    "min": min,
    "i64": wrapped,
    "i32": lambda a: wrapped(a, 32),
    # Arithmetic inside is of what i64 holds: quotients, remainders and minima with constants.
    "u32": lambda a: a % (1 << 32),
    "u64": lambda a: a % (1 << 64),
    "clamp": _clamp,
    "mirror": _mirror,
}


def is_plain(definition: ProgramDef) -> bool:
    """Whether a program is in the part of the language evaluated here: i64, and others that are cast at once."""
    declared = [*definition.arguments, *definition.outputs, *definition.buffers]
    if any(d.dtype not in _INTEGERS for d in declared) or definition.lets:
        return False
    if any(d.dtype is not DType.I64 for d in (*definition.outputs, *definition.buffers)):
        return False
    others = {d.name for d in definition.arguments if d.dtype is not DType.I64}
    for stage in definition.stages:
        if any(axis.extent is None for axis in stage.axes):
            return False
        for node in stage.value.walk():
            if not isinstance(node, _TAKEN) or (isinstance(node, Apply) and node.func not in _FUNCTIONS):
                return False
            if isinstance(node, Reduce) and (node.reducer not in _REDUCERS or any(a.extent is None for a in node.axes)):
                return False
        if not _cast(stage.value, others):
            return False
    return True


def _cast(e: SourceExpr, others: set[str], inside: bool = False) -> bool:
    """Whether every read of a buffer of another type is right inside a cast."""
    if isinstance(e, Read) and e.buffer in others and not inside:
        return False
    cast = isinstance(e, Apply) and e.func == "i64"
    return all(_cast(child, others, cast) for child in e.children() if isinstance(child, SourceExpr))


def meaning(definition: ProgramDef, sizes: Mapping[str, int], given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The buffers that the stages compute, by name; `given` has arrays, and scalars as arrays of no dimensions."""
    run = _Run(dict(sizes), {name: array.astype(object) for name, array in given.items()})
    for stage in definition.stages:
        run.stage(stage.buffer, stage.axes, stage.value)
    return {s.buffer: run.arrays[s.buffer].astype(np.int64) for s in definition.stages}


class _Run:
    def __init__(self, sizes: dict[str, int], arrays: dict[str, np.ndarray]) -> None:
        self.sizes = sizes | {name: int(a[()]) for name, a in arrays.items() if a.ndim == 0}
        self.arrays = arrays

    def stage(self, buffer: str, axes: tuple[Axis, ...], value: SourceExpr) -> None:
        extents = [self._extent(axis) for axis in axes]
        out = np.empty(extents, object)
        for at in product(*map(range, extents)):
            env = self.sizes | {axis.name: n for axis, n in zip(axes, at, strict=True)}
            out[at] = self.value(value, env)
        self.arrays[buffer] = out

    def _extent(self, axis: Axis) -> int:
        assert axis.extent is not None
        return self.value(axis.extent, self.sizes)

    def value(self, e: SourceExpr, env: Mapping[str, int]) -> int:
        match e:
            case IntLit(value=value) | BoolLit(value=value):
                return value
            case Name(name=name):
                return env[name]
            case Operation(op=op, a=a, b=b):
                return self._operation(op, a, b, env)
            case Prefix(op=op, a=a):
                return _PREFIXES[op](self.value(a, env))
            case Apply(func=func, args=args):
                return _FUNCTIONS[func](*(self.value(arg, env) for arg in args))
            case IfElse(then=then, cond=cond, otherwise=otherwise):
                return self.value(then if self.value(cond, env) else otherwise, env)
            case Read(buffer=buffer, indices=indices):
                at = tuple(self.value(i, env) for i in indices)
                array = self.arrays[buffer]
                if not all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
                    raise IndexError(f"{buffer}{list(at)} is outside {array.shape}")
                return int(array[at])
            case Reduce():
                return self._reduced(e, env)
        raise AssertionError(e)

    def _operation(self, op: BinOp, a: SourceExpr, b: SourceExpr, env: Mapping[str, int]) -> int:
        first = self.value(a, env)
        if op is BinOp.AND:
            return first and self.value(b, env)
        if op is BinOp.OR:
            return first or self.value(b, env)
        found = _OPERATIONS[op](first, self.value(b, env))
        return found if op.is_comparison else wrapped(found)

    def _reduced(self, e: Reduce, env: Mapping[str, int]) -> int:
        total = _OF_NOTHING[e.reducer]
        for term in self._terms(e, env):
            total = wrapped(_REDUCERS[e.reducer](total, term))
        return total

    def _terms(self, e: Reduce, env: Mapping[str, int]) -> Iterator[int]:
        for at in product(*(range(self._extent(axis)) for axis in e.axes)):
            there = {**env, **{axis.name: n for axis, n in zip(e.axes, at, strict=True)}}
            if e.cond is None or self.value(e.cond, there):
                yield self.value(e.operand, there)
