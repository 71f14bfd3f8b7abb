"""Conversions of the types of storage, mostly from and to f32: values in registers are their bits.

Rounding is to nearest, ties to even; NaN stays NaN. bf16 is the upper half of an f32. Most CPUs convert f16;
where a target lacks them LLVM would call a library that is not there, so the conversion is integer arithmetic, the same
in every lane (after F. Giesen, "Float to half conversion", 2012). Those of 8 bits are in `small_floats`, integers in
`small_integers`.
"""

from __future__ import annotations

from metasched.compiler.cpu.emit.conversions.float_bits import FloatBits
from metasched.compiler.cpu.emit.conversions.small_floats import SmallFloats
from metasched.compiler.cpu.emit.conversions.small_integers import SmallIntegers
from metasched.compiler.cpu.emit.native import Native
from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import SSAValue, type_text
from metasched.dtypes import DType

_SIGN = 1 << 31
_INFINITY = 0x7F800000
_LEAST_NORMAL = 0x00800000


class Halves:
    """Emits the conversions into a function; `native` says which instructions for f16 the target has."""

    def __init__(self, text: FunctionText, declarations: dict[str, str], native: Native) -> None:
        self._text = text
        self._declarations = declarations
        self._on = FloatBits(text)
        self._small = SmallFloats(self._on)
        self._small_integers = SmallIntegers(self._on)
        self._native = native

    def extend(self, half: SSAValue) -> SSAValue:
        """A number of storage in the type that it is computed in: exact."""
        on = self._on
        if half.dtype.is_integer:
            return self._small_integers.extend(half)
        if half.dtype is DType.BF16:
            return on.bits_to_f32(on.apply_number("shl", on.convert("zext", half, DType.I32), 16))
        if half.dtype is not DType.F16:
            by_f16 = self._native.converts_f16 and self._small.fits_f16_codes(half.dtype)
            return self._small.extend_by_f16(half) if by_f16 else self._small.extend(half)
        if self._native.converts_f16:
            return on.emit(f"fpext {self._cast_to_half(half)} to {type_text(DType.F32, half.width)}", DType.F32, half)
        return self._extend_f16(half)

    def round(self, value: SSAValue, to: DType) -> SSAValue:
        """A value rounded to a type of storage, from the type that it is computed in."""
        if to.is_integer:
            return self._small_integers.wrap(value, to)
        if to is DType.BF16:
            natively = self._native.rounds_bf16 and value.width
            return self._round_bf16_native(value) if natively else self._round_bf16(value)
        if to is not DType.F16:
            return self._small.round(value, to)
        if self._native.converts_f16:
            return self._round_f16_native(value)
        return self._round_f16(value)

    # --- bf16 ---

    def _round_bf16(self, value: SSAValue) -> SSAValue:
        on = self._on
        bits = on.bits(value)
        upper = on.apply_number("lshr", bits, 16)
        rounded = on.apply_number(
            "lshr", on.apply("add", on.apply_number("add", bits, 0x7FFF), on.apply_number("and", upper, 1)), 16
        )
        # Rounding could turn a NaN into infinity, or into a number.
        quiet = on.apply_number("or", upper, 0x40)
        return on.convert("trunc", on.select(on.is_nan(value), quiet, rounded), DType.BF16)

    def _round_bf16_native(self, value: SSAValue) -> SSAValue:
        """The instruction takes denormals for zero. With the least exponent of normal numbers in its place, a denormal
        has the same digits at the same places, and so has what it is rounded to.
        """
        on = self._on
        bits = on.bits(value)
        tiny = on.compare_number("icmp eq", on.apply_number("and", bits, _INFINITY), 0)
        normal = on.bits_to_f32(on.select(tiny, on.apply_number("or", bits, _LEAST_NORMAL), bits))
        rounded = on.bf16_bits(normal)
        exact = on.select(tiny, on.apply_number("sub", rounded, _LEAST_NORMAL >> 16), rounded)
        return SSAValue(exact.text, DType.BF16, exact.width)

    # --- f16 ---

    def _cast_to_half(self, half: SSAValue) -> str:
        type_ = f"<{half.width} x half>" if half.width else "half"
        return f"{type_} {self._text.emit_pure(f'bitcast {half.typed} to {type_}')}"

    def _round_f16_native(self, value: SSAValue) -> SSAValue:
        type_ = f"<{value.width} x half>" if value.width else "half"
        if self._native.computes_f16:
            # A product in f16 would be joined with the sum that it is a term of.
            half = self._fence(self._text.emit_pure(f"fptrunc {value.typed} to {type_}"), type_, DType.F16, value)
        else:
            # LLVM would take a sign from the f64 that the value comes from, and call a library to make that an f16.
            fenced = self._fence(value.text, value.type, DType.F32, value)
            half = self._text.emit_pure(f"fptrunc {value.type} {fenced} to {type_}")
        return self._on.emit(f"bitcast {type_} {half} to {type_text(DType.F16, value.width)}", DType.F16, value)

    def _fence(self, text: str, type_: str, dtype: DType, like: SSAValue) -> str:
        """A value that stays what it is: nothing is joined across."""
        symbol = f"@llvm.arithmetic.fence.{f'v{like.width}' if like.width else ''}{dtype.value}"
        self._declarations[symbol] = f"declare {type_} {symbol}({type_})"
        return self._text.emit_pure(f"call {type_} {symbol}({type_} {text})")

    def _extend_f16(self, half: SSAValue) -> SSAValue:
        on = self._on
        bits = on.convert("zext", half, DType.I32)
        # The exponent is 112 too small, which a multiplication mends, of subnormal numbers as well.
        scaled = on.apply_number(
            "fmul", on.bits_to_f32(on.apply_number("shl", on.apply_number("and", bits, 0x7FFF), 13)), 2.0**112
        )
        infinite = on.compare_number("fcmp oge", scaled, 65536.0)
        magnitude = on.bits(scaled)
        magnitude = on.select(infinite, on.apply_number("or", magnitude, _INFINITY), magnitude)
        return on.bits_to_f32(
            on.apply("or", magnitude, on.apply_number("shl", on.apply_number("and", bits, 0x8000), 16))
        )

    def _round_f16(self, value: SSAValue) -> SSAValue:
        on = self._on
        bits = on.bits(value)
        sign = on.apply_number("and", bits, _SIGN)
        magnitude = on.apply_number("and", bits, _SIGN - 1)
        odd = on.apply_number("and", on.apply_number("lshr", magnitude, 13), 1)
        normal = on.apply_number(
            "sub",
            on.apply_number("lshr", on.apply("add", on.apply_number("add", magnitude, 0xFFF), odd), 13),
            112 << 10,
        )
        # Adding one half rounds to 2**-24, the step of subnormal numbers.
        small = on.apply_number("fadd", on.bits_to_f32(magnitude), 0.5)
        subnormal = on.apply_number("sub", on.bits(small), 0x3F000000)
        out = on.select(on.compare_number("icmp ult", magnitude, 0x38800000), subnormal, normal)
        out = on.select_number(on.compare_number("icmp uge", magnitude, 0x477FF000), 0x7C00, out)
        out = on.select_number(on.is_nan(value), 0x7E00, out)
        return on.convert("trunc", on.apply("or", out, on.apply_number("lshr", sign, 16)), DType.F16)
