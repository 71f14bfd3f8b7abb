"""Conversions between f32 and the types of storage, f16 and bf16: values in registers are their bits.

Rounding is to nearest, ties to even; NaN stays NaN. bf16 is the upper half of an f32. Most CPUs convert f16;
where a target lacks them LLVM would call a library that is not there, so the conversion is integer arithmetic, the same
in every lane (after F. Giesen, "Float to half conversion", 2012).
"""

from __future__ import annotations

from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import SSAValue, constant, type_text
from metasched.dtypes import DType

_SIGN = 1 << 31
_INFINITY = 0x7F800000


class Halves:
    """Emits the conversions into a function; `native_f16` says that the target has instructions for f16."""

    def __init__(self, text: FunctionText, *, native_f16: bool) -> None:
        self._text = text
        self._native_f16 = native_f16

    def extend(self, half: SSAValue) -> SSAValue:
        """The f32 value of a half: exact."""
        if half.dtype is DType.BF16:
            return self._float(self._op("shl", self._resize("zext", half, DType.I32), 16))
        if self._native_f16:
            return self._pure(f"fpext {self._as_half(half)} to {type_text(DType.F32, half.width)}", DType.F32, half)
        return self._extend_f16(half)

    def round(self, value: SSAValue, to: DType) -> SSAValue:
        """An f32 value rounded to a half."""
        if to is DType.BF16:
            return self._round_bf16(value)
        if self._native_f16:
            return self._round_f16_native(value)
        return self._round_f16(value)

    # --- bf16 ---

    def _round_bf16(self, value: SSAValue) -> SSAValue:
        bits = self._bits(value)
        upper = self._op("lshr", bits, 16)
        rounded = self._op("lshr", self._add(self._op("add", bits, 0x7FFF), self._op("and", upper, 1)), 16)
        # Rounding could turn a NaN into infinity, or into a number.
        quiet = self._op("or", upper, 0x40)
        return self._resize("trunc", self._select(self._unordered(value), quiet, rounded), DType.BF16)

    # --- f16 ---

    def _as_half(self, half: SSAValue) -> str:
        type_ = f"<{half.width} x half>" if half.width else "half"
        return f"{type_} {self._text.pure(f'bitcast {half.typed} to {type_}')}"

    def _round_f16_native(self, value: SSAValue) -> SSAValue:
        type_ = f"<{value.width} x half>" if value.width else "half"
        half = self._text.pure(f"fptrunc {value.typed} to {type_}")
        return self._pure(f"bitcast {type_} {half} to {type_text(DType.F16, value.width)}", DType.F16, value)

    def _extend_f16(self, half: SSAValue) -> SSAValue:
        bits = self._resize("zext", half, DType.I32)
        # The exponent is 112 too small, which a multiplication mends, of subnormal numbers as well.
        shifted = self._float(self._op("shl", self._op("and", bits, 0x7FFF), 13))
        scale = constant(2.0**112, DType.F32, half.width)
        scaled = self._pure(f"fmul {shifted.typed}, {scale.text}", DType.F32, half)
        infinite = self._compare("fcmp oge", scaled, constant(65536.0, DType.F32, half.width))
        magnitude = self._bits(scaled)
        magnitude = self._select(infinite, self._op("or", magnitude, _INFINITY), magnitude)
        sign = self._op("shl", self._op("and", bits, 0x8000), 16)
        return self._float(self._pure(f"or {magnitude.typed}, {sign.text}", DType.I32, half))

    def _round_f16(self, value: SSAValue) -> SSAValue:
        bits = self._bits(value)
        sign = self._op("and", bits, _SIGN)
        magnitude = self._op("and", bits, _SIGN - 1)
        odd = self._op("and", self._op("lshr", magnitude, 13), 1)
        normal = self._op("sub", self._op("lshr", self._add(self._op("add", magnitude, 0xFFF), odd), 13), 112 << 10)
        # Adding one half rounds to 2**-24, the step of subnormal numbers.
        half = constant(0.5, DType.F32, value.width)
        small = self._pure(f"fadd {self._float(magnitude).typed}, {half.text}", DType.F32, value)
        subnormal = self._op("sub", self._bits(small), 0x3F000000)
        out = self._select(self._below(magnitude, 0x38800000), subnormal, normal)
        out = self._select(self._below(magnitude, 0x477FF000), out, constant(0x7C00, DType.I32, value.width))
        out = self._select(self._unordered(value), constant(0x7E00, DType.I32, value.width), out)
        signed = self._pure(f"or {out.typed}, {self._op('lshr', sign, 16).text}", DType.I32, value)
        return self._resize("trunc", signed, DType.F16)

    # --- instructions ---

    def _pure(self, text: str, dtype: DType, like: SSAValue) -> SSAValue:
        return SSAValue(self._text.pure(text), dtype, like.width)

    def _op(self, operation: str, a: SSAValue, number: int) -> SSAValue:
        return self._pure(f"{operation} {a.typed}, {constant(number, a.dtype, a.width).text}", a.dtype, a)

    def _add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._pure(f"add {a.typed}, {b.text}", a.dtype, a)

    def _compare(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._pure(f"{kind} {a.typed}, {b.text}", DType.BOOL, a)

    def _below(self, a: SSAValue, number: int) -> SSAValue:
        return self._compare("icmp ult", a, constant(number, a.dtype, a.width))

    def _unordered(self, value: SSAValue) -> SSAValue:
        return self._compare("fcmp uno", value, value)

    def _select(self, cond: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._pure(f"select {cond.typed}, {a.typed}, {b.typed}", a.dtype, a)

    def _resize(self, operation: str, a: SSAValue, to: DType) -> SSAValue:
        return self._pure(f"{operation} {a.typed} to {type_text(to, a.width)}", to, a)

    def _bits(self, value: SSAValue) -> SSAValue:
        return self._pure(f"bitcast {value.typed} to {type_text(DType.I32, value.width)}", DType.I32, value)

    def _float(self, bits: SSAValue) -> SSAValue:
        return self._pure(f"bitcast {bits.typed} to {type_text(DType.F32, bits.width)}", DType.F32, bits)
