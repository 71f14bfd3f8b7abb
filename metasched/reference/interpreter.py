"""The reference, interpreted: the program written out as Python source that computes with NumPy scalars.

For small programs. Nothing is rewritten on the way: loops, blocks and expressions are written as they stand, and each
access is a call that checks its element. No name or text of the program is in the source: all names are given here, so
that a program of a stranger's runs nothing else.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.dtypes import Beyond, DType, float_format, integer_range
from metasched.functions.registry import functions
from metasched.ir.integers.affine import as_int
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
_I64_LIMIT = 2**63

# Python refuses loops more than 20 deep, and parentheses more than 200 deep.
_DEEPEST_LOOPS = 16
_DEEPEST_PARENTHESES = 40


def _shift(numpy: np.ufunc, a: Value, b: Value) -> Value:
    """Shift as NumPy does: by less than 0 places, or by as many as there are, all bits are those that come in."""
    return int(numpy(a, b)) if isinstance(a, int) else numpy(a, b)


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
        BinOp.BIT_AND: operator.and_,
        BinOp.BIT_OR: operator.or_,
        BinOp.BIT_XOR: operator.xor,
        BinOp.SHIFT_LEFT: partial(_shift, np.left_shift),
        BinOp.SHIFT_RIGHT: partial(_shift, np.right_shift),
    }
)

_PYTHON_FLOATS = frozenset({DType.F32, DType.F64})  # in which Python rounds as C does

# What Python writes as it is; the rest are calls.
_CALLED_OPS = {BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV, BinOp.MIN, BinOp.MAX, BinOp.SHIFT_LEFT, BinOp.SHIFT_RIGHT}
_INFIX_OPS = frozenset(_BINARY) - _CALLED_OPS


def wins(reducer: Reducer, new: list[Value], old: list[Value]) -> bool:
    """Whether a value and its position come before others: NaN, then the best, then the lowest position."""
    (value, position), (best, at) = new, old
    if value != value or best != best:  # noqa: PLR0124 -- what a NaN is not
        return bool(value != value and (best == best or position < at))  # noqa: PLR0124
    better = value > best if reducer is Reducer.ARGMAX else value < best
    return bool(better or (value == best and position < at))


def interpret(func: Func, state: State) -> None:
    """Run `func` on the arrays of `state`. Raises ExecutionError."""
    with np.errstate(all="ignore"):
        ProgramSource(state).run(func.body)


def _convert(source: DType, dtype: DType, value: Value) -> Value:
    """Integers wrap to the new type; floats round to nearest, to an integer towards zero and within its range."""
    if source.is_float and dtype.is_integer:
        return dtype.numpy.type(_saturate(float(value), dtype))
    if dtype in _PYTHON_FLOATS and (source in _PYTHON_FLOATS or source.bits < DType.F64.bits):
        return dtype.numpy.type(value)  # which rounds once, if at all
    if dtype.is_storage and not source.is_storage:
        value = np.asarray(value).astype(dtype.compute.numpy)
        value = _prepare_for_ml_dtypes(dtype, value) if dtype.is_float else value
    return np.asarray(value).astype(dtype.numpy)[()]


def _prepare_for_ml_dtypes(dtype: DType, value: Value) -> Value:
    """A number as ml_dtypes is to be given it, where its own rounding is another than the language's."""
    kind = float_format(dtype)
    if kind.beyond is Beyond.NOTHING and np.isnan(value):
        return np.zeros_like(value)  # which would be a zero of either sign
    smallest = dtype.smallest_normal
    if kind.has_powers_alone and 0.0 < value < 2.0 * smallest:
        return np.full_like(value, smallest if value < 1.5 * smallest else 2.0 * smallest)  # all would be the larger
    return value


def _saturate(value: float, dtype: DType) -> int:
    lowest, highest = integer_range(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return highest if value > 0 else lowest
    return min(max(int(value), lowest), highest)


def _wrap_i64(value: Value) -> Value:
    """A Python integer (indices are) wrapped to 64 bits; NumPy integers already are."""
    if type(value) is int and not -_I64_LIMIT <= value < _I64_LIMIT:
        return (value + _I64_LIMIT) % (2 * _I64_LIMIT) - _I64_LIMIT
    return value


def _call_function(function: Callable[..., Value], dtype: DType, *args: Value) -> Value:
    """The value of a math function, which is computed in 64 bits where it is one of floats."""
    given = [np.float64(a) for a in args] if dtype.is_float else args
    if dtype in _PYTHON_FLOATS:
        return dtype.numpy.type(function(*given))
    return np.asarray(function(*given)).astype(dtype.numpy)[()]


class ExpressionSource(ABC):
    """Expressions as Python source: subclasses say how variables and elements are written.

    `names` is what the source calls, and `functions` are those that it defines itself.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"wrapped": _wrap_i64, "bool_": np.bool_}
        self.functions: list[str] = []

    @abstractmethod
    def variable(self, name: str) -> str:
        """The source of a variable's value."""

    @abstractmethod
    def reach(self, name: str) -> int | None:
        """The largest absolute value of a variable that is a Python integer."""

    @abstractmethod
    def load(self, name: str, indices: tuple[Expr, ...]) -> str:
        """The source of an element's value."""

    @abstractmethod
    def parameters(self, text: str) -> list[str]:
        """The parameters of a function of its own that computes `text`."""

    def name_value(self, prefix: str, value: Any) -> str:
        """A name in the source for a value."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def value(self, e: Expr) -> str:
        """The source of an expression, in parentheses where it is not one name or call."""
        text = self._text(e)
        is_deep = not isinstance(e, Const | Var) and _nesting_depth(text) > _DEEPEST_PARENTHESES
        return self._call_part(text) if is_deep else text

    def _text(self, e: Expr) -> str:
        match e:
            case Const():
                return self._constant(e)
            case Var():
                return self.variable(e.name)
            case Load():
                return self.load(e.buffer, e.indices)
            case Binary():
                return self._logical(e) if e.op.is_logical else self._binary(e)
            case Unary():
                a = self.value(e.a)
                return self._wrap_text(e, f"-{a}") if e.op is UnOp.NEG else f"bool_(not {a})"
            case Select():
                return f"({self.value(e.then)} if {self.value(e.cond)} else {self.value(e.otherwise)})"
            case Cast():
                convert = self.name_value("to", partial(_convert, e.value.dtype, e.type))
                return f"{convert}({self.value(e.value)})"
            case Call():
                function = self.name_value("call", partial(_call_function, functions()[e.func].numpy, e.type))
                return f"{function}({', '.join([self.value(a) for a in e.args])})"
            case _:
                raise TypeError(f"not an expression: {e!r}")

    def _call_part(self, text: str) -> str:
        """A call of a function of its own that gives the value of `text`."""
        name, taken = self.name_value("part", None), ", ".join(self.parameters(text))
        self.functions.append(f"def {name}({taken}): return {text}\n")
        return f"{name}({taken})"

    def _constant(self, e: Const) -> str:
        if e.type is DType.I64:
            return f"({int(e.value)})"
        return self.name_value("c", e.type.numpy.type(e.value))

    def _logical(self, e: Binary) -> str:
        return f"bool_({self.value(e.a)} {e.op.value} {self.value(e.b)})"

    def _binary(self, e: Binary) -> str:
        a, b = self.value(e.a), self.value(e.b)
        if e.op.is_comparison:
            return f"({a} {e.op.value} {b})"
        if e.op in _INFIX_OPS or (e.op in (BinOp.FLOORDIV, BinOp.MOD) and as_int(e.b)):
            return self._wrap_text(e, f"{a} {e.op.value} {b}")
        if e.op in (BinOp.MIN, BinOp.MAX) and self.bound(e) is not None:
            return f"{e.op.value}({a}, {b})"
        return self._wrap_text(e, f"{self.name_value('op', _BINARY[e.op])}({a}, {b})")

    def _wrap_text(self, e: Expr, text: str) -> str:
        """Python's integers have no end: where a value may reach that of 64 bits, it is wrapped."""
        return f"wrapped({text})" if e.dtype is DType.I64 and self.bound(e) is None else f"({text})"

    def bound(self, e: Expr) -> int | None:
        """The largest absolute value of what is computed in Python integers, if it is one of 64 bits."""
        found = None
        if isinstance(e, Const) and e.type is DType.I64:
            found = abs(int(e.value))
        elif isinstance(e, Var):
            found = self.reach(e.name)
        elif isinstance(e, Unary):
            found = self.bound(e.a)
        elif isinstance(e, Binary) and not e.op.is_comparison and not e.op.is_logical:
            found = self._bound_of_two(e)
        return found if found is not None and found < _I64_LIMIT else None

    def _bound_of_two(self, e: Binary) -> int | None:
        a, b = self.bound(e.a), self.bound(e.b)
        if a is None or b is None:
            return None
        if e.op in (BinOp.ADD, BinOp.SUB):
            return a + b
        if e.op.is_of_bits:
            return int(2 ** max(a, b).bit_length())
        if e.op is BinOp.SHIFT_LEFT:
            return None
        return a * b if e.op is BinOp.MUL else max(a, b)


def _nesting_depth(text: str) -> int:
    """How deep parentheses are inside one another."""
    deepest = depth = 0
    if text.count("(") > _DEEPEST_PARENTHESES:
        for character in text:
            depth += (character == "(") - (character == ")")
            deepest = max(deepest, depth)
    return deepest


class ProgramSource(ExpressionSource):
    """Statements as Python source that runs on the arrays of a state."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._scalars = {name: self.name_value("s", value) for name, value in state.scalars.items()}
        self._variables = dict(self._scalars)
        self._reaches: dict[str, int] = {}
        self._accesses: dict[str, str] = {}
        self._lines: list[str] = []
        self._depth = self._loops = self._count = 0

    def run(self, stmt: Stmt) -> None:
        program = self._function(stmt, [])
        exec(compile("".join(self.functions), "<reference>", "exec"), self.names)
        self.names[program]()

    def variable(self, name: str) -> str:
        return self._variables[name]

    def reach(self, name: str) -> int | None:
        return self._reaches.get(name)

    def parameters(self, text: str) -> list[str]:
        mentioned = set(re.findall(r"\w+", text))
        return sorted({name for name in self._variables.values() if name in mentioned} - self.names.keys())

    def load(self, name: str, indices: tuple[Expr, ...]) -> str:
        return f"{self._access('load', name)}({', '.join(map(self.value, indices))})"

    # --- lines -------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(" " * self._depth + text + "\n")

    @contextmanager
    def _indent(self, head: str) -> Iterator[None]:
        self._line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _open_if(self, conditions: list[str]) -> AbstractContextManager[None]:
        return self._indent(f"if {' and '.join(conditions)}:") if conditions else nullcontext()

    def _let(self, text: str) -> str:
        self._count += 1
        name = f"v{self._count}"
        self._line(f"{name} = {text}")
        return name

    def _function(self, stmt: Stmt, taken: list[str]) -> str:
        """The name of a function that runs a statement."""
        outside = self._lines, self._depth, self._loops
        self._lines, self._depth, self._loops = [], 0, 0
        self._count += 1
        name = f"nest{self._count}"
        with self._indent(f"def {name}({', '.join(taken)}):"):
            self._statement(stmt)
        self.functions.append("".join(self._lines))
        self._lines, self._depth, self._loops = outside
        return name

    # --- statements --------------------------------------------------------------------------------------

    def _statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for child in stmt.stmts:
                self._statement(child)
        elif isinstance(stmt, For) and self._loops == _DEEPEST_LOOPS:
            taken = sorted(set(self._variables.values()) - self.names.keys())
            self._line(f"{self._function(stmt, taken)}({', '.join(taken)})")
        elif isinstance(stmt, For):
            self._loop(stmt)
        elif isinstance(stmt, Block):
            self._block(stmt)
        else:
            raise TypeError(f"not a statement: {stmt!r}")

    def _loop(self, loop: For) -> None:
        outside, reaches = self._variables, self._reaches
        self._count += 1
        name = f"v{self._count}"
        with self._indent(f"for {name} in range(int({self.value(loop.extent)})):"):
            bound = self.bound(loop.extent)
            self._variables = outside | {loop.var: name}
            self._reaches = _set_reach(reaches, loop.var, bound)
            self._loops += 1
            self._statement(loop.body)
            self._loops -= 1
        self._variables, self._reaches = outside, reaches

    def _block(self, block: Block) -> None:
        outside, reaches = self._variables, self._reaches
        inside, inside_reaches = dict(self._scalars), dict[str, int]()
        for iteration, binding in zip(block.iters, block.bindings, strict=True):
            text, bound = self.value(binding), self.bound(binding)
            inside[iteration.name] = self._let(text if bound is not None else f"int({text})")
            inside_reaches = _set_reach(inside_reaches, iteration.name, bound)
        first, when = initialisation(block) if block.init is not None else ((), ())
        starts = [f"{self.value(e)} == 0" for e in first] + [self.value(g) for g in when]
        guards = [self.value(g) for g in block.guards]
        self._variables, self._reaches = inside, inside_reaches
        if block.init is not None:
            with self._open_if(starts):
                self._store(block.store, self.value(block.init))
                if block.index is not None:
                    self._store(block.index, self.value(no_position(block.index.value.dtype)))
        with self._open_if(guards):
            self._update(block)
        self._variables, self._reaches = outside, reaches

    def _update(self, block: Block) -> None:
        reducer, stores = block.reducer, block.stores
        values = [self._let(self.value(store.value)) for store in stores]
        if reducer is None:
            for store, value in zip(stores, values, strict=True):
                self._store(store, value)
        elif reducer.is_arg:
            old = ", ".join(self.load(store.buffer, store.indices) for store in stores)
            with self._indent(f"if {self.name_value('wins', partial(wins, reducer))}([{', '.join(values)}], [{old}]):"):
                for store, value in zip(stores, values, strict=True):
                    self._store(store, value)
        else:
            self._store(block.store, values[0], reducer.operation)

    def _store(self, store: Store, value: str, combine: BinOp | None = None) -> None:
        access = self._access("store" if combine is None else combine.name, store.buffer, combine)
        self._line(f"{access}({', '.join((value, *map(self.value, store.indices)))})")

    # --- elements ----------------------------------------------------------------------------------------

    def _access(self, kind: str, name: str, combine: BinOp | None = None) -> str:
        """The name of a function that loads, stores or updates an element of a buffer, which it checks."""
        found = self._accesses.get(f"{kind} {name}")
        return self._add_access(kind, name, combine) if found is None else found

    def _add_access(self, kind: str, name: str, combine: BinOp | None) -> str:
        array, written = self._state.arrays[name], self._state.written.get(name)
        element, flag = self.name_value("array", array), self.name_value("written", written)
        indices = [f"i{d}" for d in range(array.ndim)]
        at = ", ".join(indices) or "()"
        checks = [f"0 <= {i} < {size}" for i, size in zip(indices, array.shape, strict=True)]
        if kind != "store" and written is not None:
            checks.append(f"{flag}[{at}]")
        if kind == "load":
            action = f"return {element}[{at}]"
        elif combine is None:
            action = f"{element}[{at}] = value; {flag}[{at}] = True; return"
        else:
            combined = f"{self.name_value('op', _BINARY[combine])}({element}[{at}], value)"
            action = f"{element}[{at}] = {combined}; return"
        found = self._accesses[f"{kind} {name}"] = f"{kind}_{element}"
        self.functions.append(
            f"def {found}({', '.join(indices if kind == 'load' else ('value', *indices))}):\n"
            f" if {' and '.join(checks) or 'True'}: {action}\n"
            f" {self.name_value('fail', partial(_raise_access_error, name, array.shape))}({', '.join(indices)})\n"
        )
        return found


def _set_reach(reaches: dict[str, int], name: str, bound: int | None) -> dict[str, int]:
    others = {other: reach for other, reach in reaches.items() if other != name}
    return others if bound is None else others | {name: bound}


def _raise_access_error(name: str, shape: tuple[int, ...], *at: int) -> None:
    element = f"`{name}[{', '.join(map(str, at))}]`"
    if all(0 <= i < size for i, size in zip(at, shape, strict=True)):
        raise ExecutionError(f"{element} is read before it is written")
    raise ExecutionError(f"{element} is outside its shape {shape}")
