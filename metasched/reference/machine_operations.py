"""What operations of the IR are in LLVM's: arithmetic, comparisons and casts in each type.

Values of types of storage are held as `f32` numbers that are exact in them. Integers wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from llvmlite import ir

from metasched.dtypes import Beyond, DType, float_format
from metasched.ir.nodes import BinOp, Const

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)

_FLOATS = {
    BinOp.ADD: ir.IRBuilder.fadd,
    BinOp.SUB: ir.IRBuilder.fsub,
    BinOp.MUL: ir.IRBuilder.fmul,
    BinOp.DIV: ir.IRBuilder.fdiv,
}
# What a number beyond the largest becomes.
_OVERFLOW_VALUES: Mapping[Beyond, Callable[[float], float]] = MappingProxyType(
    {
        Beyond.INFINITY: lambda _: math.inf,
        Beyond.NAN: lambda _: math.nan,
        Beyond.ONE_NAN: lambda _: math.nan,
        Beyond.NOTHING: lambda largest: largest,
    }
)
_INTEGERS = {
    BinOp.ADD: ir.IRBuilder.add,
    BinOp.SUB: ir.IRBuilder.sub,
    BinOp.MUL: ir.IRBuilder.mul,
    BinOp.BIT_AND: ir.IRBuilder.and_,
    BinOp.BIT_OR: ir.IRBuilder.or_,
    BinOp.BIT_XOR: ir.IRBuilder.xor,
}


def register_type(dtype: DType) -> ir.Type:
    """The type of a value."""
    if dtype.is_float:
        return ir.DoubleType() if dtype is DType.F64 else ir.FloatType()
    return I1 if dtype.is_bool else ir.IntType(dtype.bits)


def memory_type(dtype: DType) -> ir.Type:
    """The type of an element of an array, which is in the type that its values are computed in."""
    return I8 if dtype.is_bool else register_type(dtype)


def constant(e: Const) -> ir.Constant:
    """The value of a constant."""
    if not e.type.is_float:
        return ir.Constant(register_type(e.type), int(e.value))
    return ir.Constant(register_type(e.type), float(e.type.numpy.type(e.value)))


class OperationWriter:
    """Writes operations on values at the end of a function under construction."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder

    # --- arithmetic --------------------------------------------------------------------------------------

    def binary(self, op: BinOp, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
        """The value of an operation on two values of a type. Raises TypeError for one that the type does not have."""
        if op.is_comparison:
            return self._compare(op.value, dtype, a, b)
        if op in (BinOp.MIN, BinOp.MAX):
            return self._extreme(op, dtype, a, b)
        if dtype.is_float and op in _FLOATS:
            return self.round(dtype, _FLOATS[op](self._builder, a, b))
        if not dtype.is_float and op in _INTEGERS:
            return _INTEGERS[op](self._builder, a, b)
        if dtype.is_integer and op in (BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV):
            return self._divide(op, dtype, a, b)
        if dtype.is_integer and op.is_shift:
            return self._shift(op, dtype, a, b)
        raise TypeError(f"there is no `{op.value}` of {dtype}")

    def negate(self, dtype: DType, a: ir.Value) -> ir.Value:
        return self._builder.fneg(a) if dtype.is_float else self._builder.neg(a)

    def _compare(self, sign: str, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
        if dtype.is_float:
            # A NaN is not equal to anything, and differs from everything.
            compare = self._builder.fcmp_unordered if sign == "!=" else self._builder.fcmp_ordered
            return compare(sign, a, b)
        unsigned = dtype.is_unsigned or dtype.is_bool
        return (self._builder.icmp_unsigned if unsigned else self._builder.icmp_signed)(sign, a, b)

    def _extreme(self, op: BinOp, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
        """A NaN on either side is the result."""
        first = self._compare("<" if op is BinOp.MIN else ">", dtype, a, b)
        if dtype.is_float:
            first = self._builder.or_(first, self.is_nan(a))
        return self._builder.select(first, a, b)

    def is_nan(self, a: ir.Value) -> ir.Value:
        return self._builder.fcmp_unordered("uno", a, a)

    def _divide(self, op: BinOp, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
        """Divide, rounded down or up. What is divided by 0 is 0, and so is the remainder."""
        if op is BinOp.CEILDIV:
            down = self._divide(BinOp.FLOORDIV, dtype, self._builder.neg(a), b)
            return self._builder.neg(down)
        zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
        by_zero = self._builder.icmp_signed("==", b, zero)
        if dtype.is_unsigned:
            divide = self._builder.udiv if op is BinOp.FLOORDIV else self._builder.urem
            return self._builder.select(by_zero, zero, divide(a, self._builder.select(by_zero, one, b)))
        # The lowest number over -1 would end the process.
        by_minus_one = self._builder.icmp_signed("==", b, ir.Constant(a.type, -1))
        divisor = self._builder.select(self._builder.or_(by_zero, by_minus_one), one, b)
        remainder = self._builder.srem(a, divisor)
        other_sign = self._builder.icmp_signed("<", self._builder.xor(remainder, divisor), zero)
        below = self._builder.and_(other_sign, self._builder.icmp_signed("!=", remainder, zero))
        if op is BinOp.MOD:
            # Of 1, which stands for 0 and -1, it is 0.
            return self._builder.add(remainder, self._builder.select(below, divisor, zero))
        quotient = self._builder.sub(self._builder.sdiv(a, divisor), self._builder.zext(below, a.type))
        quotient = self._builder.select(by_minus_one, self._builder.neg(a), quotient)
        return self._builder.select(by_zero, zero, quotient)

    def _shift(self, op: BinOp, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
        """A shift, which for less than 0 places, or as many as there are or more, is 0, or -1 for a negative number
        that is shifted to the right.
        """
        zero = ir.Constant(a.type, 0)
        inside = self._builder.icmp_unsigned("<", b, ir.Constant(a.type, a.type.width))
        places = self._builder.select(inside, b, zero)
        if op is BinOp.SHIFT_LEFT:
            return self._builder.select(inside, self._builder.shl(a, places), zero)
        if dtype.is_unsigned:
            return self._builder.select(inside, self._builder.lshr(a, places), zero)
        sign = self._builder.ashr(a, ir.Constant(a.type, a.type.width - 1))
        return self._builder.select(inside, self._builder.ashr(a, places), sign)

    # --- types -------------------------------------------------------------------------------------------

    def cast(self, source: DType, dtype: DType, a: ir.Value) -> ir.Value:
        """Integers wrap to the new type; floats round to nearest, to an integer towards zero and within its range."""
        if dtype.is_integer and dtype.is_storage:
            return self._wrap_narrow(dtype, self.cast(source, dtype.compute, a))
        if dtype.is_bool:
            return self._compare("!=", source, a, ir.Constant(a.type, 0))
        if source.is_float and dtype.is_integer:
            return self._saturate(dtype, a)
        if source.is_float:
            return self.round(dtype, self.resize_float(a, register_type(dtype)))
        unsigned = source.is_unsigned or source.is_bool
        if dtype.is_float:
            convert = self._builder.uitofp if unsigned else self._builder.sitofp
            return self.round(dtype, convert(a, register_type(dtype)))
        if dtype.bits > a.type.width:
            return (self._builder.zext if unsigned else self._builder.sext)(a, register_type(dtype))
        return self._builder.trunc(a, register_type(dtype)) if dtype.bits < a.type.width else a

    def resize_float(self, a: ir.Value, kind: ir.Type) -> ir.Value:
        """A float as one of another size."""
        if a.type == kind:
            return a
        return (self._builder.fpext if isinstance(a.type, ir.FloatType) else self._builder.fptrunc)(a, kind)

    def _saturate(self, dtype: DType, a: ir.Value) -> ir.Value:
        kind = ir.IntType(dtype.bits)
        name = f"llvm.fpto{'u' if dtype.is_unsigned else 's'}i.sat.i{dtype.bits}.f64"
        convert = declare_function(self._builder.module, name, kind, ir.DoubleType())
        return self._builder.call(convert, [self.resize_float(a, ir.DoubleType())])

    def memory_value(self, dtype: DType, a: ir.Value) -> ir.Value:
        """A value as it is in memory."""
        return self._builder.zext(a, I8) if dtype.is_bool else a

    def register_value(self, dtype: DType, a: ir.Value) -> ir.Value:
        """A value that was in memory."""
        return self._builder.icmp_signed("!=", a, ir.Constant(I8, 0)) if dtype.is_bool else a

    # --- types of storage --------------------------------------------------------------------------------

    def _nearest_power(self, a: ir.Value) -> ir.Value:
        """The power of two nearest to an `f32`, from 2**-127 to 2**127, the larger one of two; NaN without one.

        It is half of a number whose last 23 bits are none: those of a power of two.
        """
        build = self._builder
        limits = [_f32_constant(2.0**exponent) for exponent in (-126, -127, 127)]
        digits = ir.Constant(I32, 2**32 - 2**23)
        below = build.bitcast(build.and_(build.bitcast(a, I32), digits), ir.FloatType())
        next_ = build.fmul(below, _f32_constant(2.0))
        middle = build.fmul(below, _f32_constant(1.5))
        normal = build.select(build.fcmp_ordered(">=", a, middle), next_, below)
        tiny = build.select(build.fcmp_ordered(">=", a, _f32_constant(1.5 * 2.0**-127)), limits[0], limits[1])
        found = build.select(build.fcmp_ordered("<", a, limits[0]), tiny, normal)
        fine = build.and_(build.fcmp_ordered(">", a, _f32_constant(0.0)), build.fcmp_ordered("<=", found, limits[2]))
        return build.select(fine, found, _f32_constant(math.nan))

    def _wrap_narrow(self, dtype: DType, a: ir.Value) -> ir.Value:
        """An integer of less than 8 bits, wrapped: it is held as one of 8."""
        unused = ir.Constant(a.type, dtype.bits - dtype.digits)
        back = self._builder.lshr if dtype.is_unsigned else self._builder.ashr
        return back(self._builder.shl(a, unused), unused)

    def round(self, dtype: DType, a: ir.Value) -> ir.Value:
        """The `f32` number nearest to a value that is exact in a type of storage, ties to even; other types as they
        are.

        Its digits are the first of an f32's, which are rounded to them as bits. Below the smallest normal number the
        step is the same everywhere, and adding a number whose last digit is worth that step rounds to it.
        """
        if not dtype.is_storage:
            return a
        if float_format(dtype).has_powers_alone:
            return self._nearest_power(a)
        build, kind = self._builder, float_format(dtype)
        dropped = float_format(DType.F32).significand - kind.significand
        bits = build.bitcast(a, I32)
        sign = build.and_(bits, ir.Constant(I32, 2**31))
        size = build.and_(bits, ir.Constant(I32, 2**31 - 1))
        absolute = build.bitcast(size, ir.FloatType())
        step = _f32_constant(2.0 ** (kind.smallest_exponent + dropped))
        small = build.bitcast(build.fsub(build.fadd(absolute, step), step), I32)
        last = build.and_(build.lshr(size, ir.Constant(I32, dropped)), ir.Constant(I32, 1))
        nearest = build.add(build.add(size, ir.Constant(I32, 2 ** (dropped - 1) - 1)), last)
        nearest = build.and_(nearest, ir.Constant(I32, 2**32 - 2**dropped))
        tiny = build.fcmp_ordered("<", absolute, _f32_constant(dtype.smallest_normal))
        nearest = build.select(tiny, small, nearest)
        above = build.icmp_unsigned(">", nearest, ir.Constant(I32, _f32_bits(kind.largest)))
        nearest = build.select(above, ir.Constant(I32, _f32_bits(_OVERFLOW_VALUES[kind.beyond](kind.largest))), nearest)
        if kind.beyond is Beyond.ONE_NAN:
            sign = build.select(build.icmp_unsigned("==", nearest, ir.Constant(I32, 0)), nearest, sign)
        found = build.bitcast(build.or_(nearest, sign), ir.FloatType())
        return build.select(self.is_nan(a), _f32_constant(0.0) if kind.beyond is Beyond.NOTHING else a, found)


def declare_function(module: ir.Module, name: str, result: ir.Type, *arguments: ir.Type) -> ir.Function:
    """A function of another module, or of LLVM."""
    found = module.globals.get(name)
    return ir.Function(module, ir.FunctionType(result, arguments), name) if found is None else found


def _f32_constant(value: float) -> ir.Constant:
    return ir.Constant(ir.FloatType(), value)


def _f32_bits(value: float) -> int:
    """The bits of a float's magnitude as an f32, which is infinite where it is too large."""
    with np.errstate(over="ignore"):
        return int(np.float32(value).view(np.uint32))
