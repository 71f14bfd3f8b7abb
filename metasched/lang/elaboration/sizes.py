"""Parameters, `let`s, and expressions of numbers alone."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from metasched.dtypes import INDEX, holds_range
from metasched.functions.registry import functions
from metasched.ir.nodes import BinOp, UnOp
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
)
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
from metasched.support.integers import is_integer
from metasched.support.messages import counted, did_you_mean

Number: TypeAlias = int | float | bool


def _shift_left(a: int, b: int) -> int:
    """`a << b`; a result far beyond 64 bits is a smaller one, also beyond them, that fits in memory."""
    return a << min(b, 2 * INDEX.bits)


def _invert(a: int) -> Number:
    return (not a) if isinstance(a, bool) else ~a


# Of numbers, and of whatever else has Python's operators.
OPERATORS: Mapping[BinOp, Callable[[Any, Any], Any]] = {
    BinOp.ADD: operator.add,
    BinOp.SUB: operator.sub,
    BinOp.MUL: operator.mul,
    BinOp.DIV: operator.truediv,
    BinOp.FLOORDIV: operator.floordiv,
    BinOp.MOD: operator.mod,
    BinOp.LT: operator.lt,
    BinOp.LE: operator.le,
    BinOp.GT: operator.gt,
    BinOp.GE: operator.ge,
    BinOp.EQ: operator.eq,
    BinOp.NE: operator.ne,
    BinOp.BIT_AND: operator.and_,
    BinOp.BIT_OR: operator.or_,
    BinOp.BIT_XOR: operator.xor,
    BinOp.SHIFT_LEFT: _shift_left,
    BinOp.SHIFT_RIGHT: operator.rshift,
}
PREFIXES: Mapping[UnOp, Callable[[Any], Any]] = {
    UnOp.NEG: operator.neg,
    UnOp.NOT: operator.not_,
    UnOp.INVERT: _invert,
}
_CHOICES: Mapping[str, Callable[[float, float], float]] = {"max": max, "min": min}


class Sizes:
    """The values of parameters and `let`s."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        # None for a name whose definition was wrong: it is known, and using it is no further mistake.
        self._values: dict[str, int | None] = {}
        self.used: set[str] = set()

    def define(self, name: str, value: int | None) -> None:
        self._values[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._values)

    def is_literal(self, e: SourceExpr, hidden: frozenset[str] = frozenset()) -> bool:
        """Whether `e` is made of numbers and sizes alone; `hidden` are names that mean something else here."""
        match e:
            case Name(name=name):
                return name in self._values and name not in hidden
            case IntLit() | FloatLit() | BoolLit():
                return True
            case Read() | Reduce():
                return False
            case Apply(func=func) if func not in functions() and func not in _CHOICES:
                return False
        return all(self.is_literal(child, hidden) for child in e.children() if isinstance(child, SourceExpr))

    def size(self, e: SourceExpr) -> int | None:
        """The integer value of `e`; None after reporting why it has none."""
        value = self.value(e)
        if value is None:
            return None
        if not is_integer(value):
            self._diagnostics.error(e.start, f"a size is a whole number, and `{print_source(e)}` is {value}")
            return None
        if not holds_range(INDEX, value, value):
            self._diagnostics.error(e.start, f"`{print_source(e)}` does not fit in 64 bits")
            return None
        return value

    def value(self, e: SourceExpr) -> Number | None:
        """The value of `e`; None after reporting why it has none."""
        match e:
            case IntLit(value=value) | FloatLit(value=value) | BoolLit(value=value):
                return value
            case Name(name=name):
                return self._name(name, e)
            case Operation(op=op, a=a, b=b):
                return self._operation(op, a, b, e)
            case Prefix(op=op, a=a):
                inner = self.value(a)
                if inner is None:
                    return None
                if op is UnOp.INVERT and isinstance(inner, float):
                    self._no_bits(op, e)
                    return None
                return self._compute(e, lambda: PREFIXES[op](inner))
            case IfElse(then=then, cond=cond, otherwise=otherwise):
                chosen = self.value(cond)
                return None if chosen is None else self.value(then if chosen else otherwise)
            case Apply():
                return self._apply(e)
            case Read(buffer=buffer):
                self._diagnostics.error(e.at, f"a size cannot depend on the data in `{buffer}`")
            case Reduce():
                self._diagnostics.error(e.at, "a size cannot be a reduction")
        return None

    def _name(self, name: str, e: SourceExpr) -> int | None:
        if name not in self._values:
            hint = did_you_mean(name, self._values) or "sizes are parameters and names given by `let`"
            self._diagnostics.error(e.at, f"`{name}` is not a size", hint)
            return None
        self.used.add(name)
        return self._values[name]

    def _operation(self, op: BinOp, a: SourceExpr, b: SourceExpr, e: SourceExpr) -> Number | None:
        left, right = self.value(a), self.value(b)
        if left is None or right is None:
            return None
        if op.is_logical:
            return (left and right) if op is BinOp.AND else (left or right)
        if (op.is_of_bits or op.is_shift) and (isinstance(left, float) or isinstance(right, float)):
            self._no_bits(op, e)
            return None
        return self._compute(e, lambda: OPERATORS[op](left, right))

    def _no_bits(self, op: BinOp | UnOp, e: SourceExpr) -> None:
        self._diagnostics.error(e.at, f"`{op.value}` is for the bits of integers, in `{print_source(e)}`")

    def _apply(self, e: Apply) -> Number | None:
        function = functions().get(e.func)
        evaluate = function.evaluate if function is not None else _CHOICES.get(e.func)
        if evaluate is None:
            known = [*functions(), *_CHOICES]
            self._diagnostics.error(e.at, f"`{e.func}` is not a function of numbers", did_you_mean(e.func, known))
            return None
        arity = function.arity if function is not None else 2
        if len(e.args) != arity:
            self._diagnostics.error(e.at, f"`{e.func}` takes {counted(arity, 'argument')}, not {len(e.args)}")
            return None
        args = [self.value(arg) for arg in e.args]
        known_args = [arg for arg in args if arg is not None]
        return None if len(known_args) < len(args) else self._compute(e, lambda: evaluate(*known_args))

    def _compute(self, e: SourceExpr, run: Callable[[], Number]) -> Number | None:
        try:
            value = run()
        except ZeroDivisionError:
            self._diagnostics.error(e.at, f"`{print_source(e)}` divides by zero")
            return None
        except (ValueError, OverflowError):
            self._diagnostics.error(e.at, f"`{print_source(e)}` has no value: outside the function's domain")
            return None
        if isinstance(value, int) and not holds_range(INDEX, value, value):
            self._diagnostics.error(e.at, f"`{print_source(e)}` does not fit in 64 bits")
            return None
        return value
