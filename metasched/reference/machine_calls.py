"""Calls of math functions in LLVM IR: what a function says of itself to Numba, as calls of C's.

An expression that is more than arithmetic and functions of C is compiled by Numba.
"""

from __future__ import annotations

import ast
import math
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from metasched.dtypes import DType
from metasched.ir.nodes import BinOp
from metasched.reference.machine_operations import I64, OperationWriter, declare_function, register_type

# Of doubles, by the names that `math` or NumPy and C share.
_C_FUNCTIONS = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh"),
}
_INSTRUCTIONS = {"ceil", "fabs", "floor", "rint", "sqrt", "trunc"}
_OPERATORS = {ast.Add: BinOp.ADD, ast.Sub: BinOp.SUB, ast.Mult: BinOp.MUL, ast.Div: BinOp.DIV}


def call(builder: ir.IRBuilder, text: str, dtype: DType, arguments: list[ir.Value]) -> ir.Value:
    """The value of a math function's expression for Numba, of doubles or of integers of `dtype`."""
    try:
        return _Call(builder, dtype, arguments).value(
            ast.parse(text.format(*_argument_names(arguments)), mode="eval").body
        )
    except _UnknownError:
        kind = register_type(dtype)
        function = ir.PointerType(ir.FunctionType(kind, [kind] * len(arguments)))
        address = _compile_with_numba(text, dtype, len(arguments)).address
        return builder.call(builder.inttoptr(ir.Constant(I64, address), function), arguments)


def _argument_names(arguments: list[Any]) -> list[str]:
    return [f"x{n}" for n in range(len(arguments))]


@cache  # for good: machine code that is kept elsewhere calls it by its address
def _compile_with_numba(text: str, dtype: DType, count: int) -> Any:
    import numba

    names = _argument_names([None] * count)
    function = eval(f"lambda {', '.join(names)}: {text.format(*names)}", {"np": np, "math": math})  # noqa: S307
    kind = numba.from_dtype(dtype.numpy)
    return numba.cfunc(kind(*[kind] * count), error_model="numpy")(function)


class _UnknownError(Exception):
    """It is not arithmetic and functions of C."""


class _Call:
    """Writes a call of a math function. What it writes before `_UnknownError` is raised has no effect."""

    def __init__(self, builder: ir.IRBuilder, dtype: DType, arguments: list[ir.Value]) -> None:
        self._builder = builder
        self._operations = OperationWriter(builder)
        self._dtype = dtype
        self._arguments = dict(zip(_argument_names(arguments), arguments, strict=True))

    def value(self, node: ast.expr) -> ir.Value:
        match node:
            case ast.Name(id=name) if name in self._arguments:
                return self._arguments[name]
            case ast.Constant(value=float() | int() as number) if self._dtype.is_float:
                return ir.Constant(ir.DoubleType(), float(number))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS and self._dtype.is_float:
                return self._operations.binary(_OPERATORS[type(op)], self._dtype, self.value(a), self.value(b))
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return self._operations.negate(self._dtype, self.value(a))
            case ast.Call(func=ast.Name(id="abs"), args=[a], keywords=[]):
                return self._absolute_value(self.value(a))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="math" | "np"), attr=name), args=args, keywords=[]):
                return self._call_c(name, args)
        raise _UnknownError

    def _absolute_value(self, a: ir.Value) -> ir.Value:
        if self._dtype.is_float:
            return self._builder.call(_declare_f64(self._builder, "llvm.fabs.f64", 1), [a])
        if self._dtype.is_unsigned:
            return a
        negative = self._builder.icmp_signed("<", a, ir.Constant(a.type, 0))
        return self._builder.select(negative, self._builder.neg(a), a)

    def _call_c(self, name: str, args: list[ast.expr]) -> ir.Value:
        if not self._dtype.is_float or name not in _C_FUNCTIONS | _INSTRUCTIONS:
            raise _UnknownError
        symbol = f"llvm.{name}.f64" if name in _INSTRUCTIONS else name
        return self._builder.call(_declare_f64(self._builder, symbol, len(args)), [self.value(a) for a in args])


def _declare_f64(builder: ir.IRBuilder, name: str, arity: int) -> ir.Function:
    return declare_function(builder.module, name, ir.DoubleType(), *[ir.DoubleType()] * arity)
