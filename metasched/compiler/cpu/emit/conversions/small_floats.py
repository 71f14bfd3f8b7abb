"""Conversions between f32 and floats of at most 8 bits, by their formats: integer arithmetic, the same in every lane.

Numbers are rounded to nearest, ties to even. What is beyond the largest one, and what becomes of NaN and of a negative
zero, is as `metasched.dtypes.Beyond` says.
"""

from __future__ import annotations

import math
import struct

from metasched.compiler.cpu.emit.conversions.float_bits import FloatBits
from metasched.compiler.cpu.emit.types import SSAValue
from metasched.dtypes import Beyond, DType, float_format

_SINGLE, _HALF = float_format(DType.F32), float_format(DType.F16)
_INFINITY = 0x7F800000
_NAN = 0x7FC00000
_SMALLEST_POWER_BITS = 1 << (_SINGLE.kept_bits - 1)  # 2**-127, the smallest power of two of 8 bits


class SmallFloats:
    """Emits the conversions, in which a value of such a type is its bits."""

    def __init__(self, on: FloatBits) -> None:
        self._on = on

    def extend(self, code: SSAValue) -> SSAValue:
        """The f32 value of a number: exact."""
        on, kind = self._on, float_format(code.dtype)
        bits = on.convert("zext", code, DType.I32)
        if kind.has_powers_alone:
            return self._power_of_two(bits)
        size = on.apply_number("and", bits, 2**kind.sign - 1)
        shifted = on.apply_number("shl", size, _SINGLE.kept_bits - kind.kept_bits)
        normal = on.apply_number("add", shifted, (_SINGLE.bias - kind.bias) << _SINGLE.kept_bits)
        # By way of an integer: a product of subnormal numbers of f32 takes long on many CPUs.
        step = 2.0 ** (kind.smallest_exponent - kind.kept_bits)
        small = on.bits(on.apply_number("fmul", on.convert("sitofp", size, DType.F32), step))
        found = on.select(on.compare_number("icmp ult", size, 2**kind.kept_bits), small, normal)
        if kind.beyond is Beyond.ONE_NAN:
            found = on.select_number(on.compare_number("icmp eq", bits, 2**kind.sign), _NAN, found)
        elif kind.beyond is not Beyond.NOTHING:
            above = on.compare_number("icmp ugt", size, kind.largest_code)
            found = on.select(above, on.apply_number("or", shifted, _INFINITY), found)
        sign = on.apply_number("shl", on.apply_number("and", bits, 2**kind.sign), _SINGLE.sign - kind.sign)
        return on.bits_to_f32(on.apply("or", found, sign))

    @staticmethod
    def fits_f16_codes(dtype: DType) -> bool:
        """Whether the codes of a type are codes of f16, once moved, but for an exponent that is off by a constant."""
        kind = float_format(dtype)
        return kind.sign < _HALF.exponent + kind.kept_bits or (kind.bias, kind.beyond) == (_HALF.bias, _HALF.beyond)

    def extend_by_f16(self, code: SSAValue) -> SSAValue:
        """The f32 of a code of a type that `fits_f16_codes` holds of, by the target's instruction for f16."""
        on, kind = self._on, float_format(code.dtype)
        bits = on.convert("zext", code, DType.I16)
        # The sign goes to its place, and the rest back by as many as the exponent has less bits.
        moved = on.apply_number("shl", bits, _HALF.sign - kind.sign)
        if kind.exponent < _HALF.exponent:
            moved = on.apply_number("ashr", moved, _HALF.exponent - kind.exponent)
            moved = on.apply_number(
                "and", moved, 2**_HALF.sign + ((2**kind.sign - 1) << (_HALF.kept_bits - kind.kept_bits))
            )
        found = on.half_to_f32(moved)
        if kind.bias != _HALF.bias:
            found = on.apply_number("fmul", found, 2.0 ** (_HALF.bias - kind.bias))
        if kind.beyond is Beyond.ONE_NAN:
            return on.select_number(on.compare_number("icmp eq", bits, 2**kind.sign), math.nan, found)
        if kind.beyond is Beyond.NAN:
            last = on.compare_number("icmp eq", on.apply_number("or", bits, 2**kind.sign), 2 ** (kind.sign + 1) - 1)
            return on.select_number(last, math.nan, found)
        return found

    def round(self, value: SSAValue, to: DType) -> SSAValue:
        """An f32 value rounded to such a type."""
        on, kind = self._on, float_format(to)
        bits = on.bits(value)
        if kind.has_powers_alone:
            return on.convert("trunc", self._nearest_exponent(bits, kind.largest_code), to)
        size = on.apply_number("and", bits, 2**_SINGLE.sign - 1)
        found = on.select(
            on.compare_number("icmp ult", size, _f32_bits(2.0**kind.smallest_exponent)),
            self._subnormal_code(size, to),
            self._normal_code(size, to),
        )
        above = on.compare_number("icmp ugt", found, kind.largest_code)
        sign = on.apply_number("lshr", on.apply_number("and", bits, 2**_SINGLE.sign), _SINGLE.sign - kind.sign)
        match kind.beyond:
            case Beyond.INFINITY:
                found = on.select_number(above, kind.largest_code + 1, found)
                found = on.select_number(on.is_nan(value), kind.largest_code + 1 + 2 ** (kind.kept_bits - 1), found)
                found = on.apply("or", found, sign)
            case Beyond.NAN:
                found = on.apply("or", on.select_number(above, kind.largest_code + 1, found), sign)
            case Beyond.ONE_NAN:
                signed = on.apply("or", found, sign)
                found = on.select_number(on.compare_number("icmp eq", found, 0), 0, signed)
                found = on.select_number(above, 2**kind.sign, found)
            case Beyond.NOTHING:
                found = on.apply("or", on.select_number(above, kind.largest_code, found), sign)
                found = on.select_number(on.is_nan(value), 0, found)
        return on.convert("trunc", found, to)

    def _power_of_two(self, exponent: SSAValue) -> SSAValue:
        """The power of two of an f32's exponent, of which the first is that of subnormal numbers, and the last NaN."""
        on = self._on
        found = on.select_number(
            on.compare_number("icmp eq", exponent, 0),
            _SMALLEST_POWER_BITS,
            on.apply_number("shl", exponent, _SINGLE.kept_bits),
        )
        return on.bits_to_f32(
            on.select_number(on.compare_number("icmp eq", exponent, 2**_SINGLE.exponent - 1), _NAN, found)
        )

    def _nearest_exponent(self, bits: SSAValue, largest: int) -> SSAValue:
        """The exponent of the nearest power of two, the larger one of two; after the largest what has none."""
        on = self._on
        nearest = on.apply_number("lshr", on.apply_number("add", bits, _SMALLEST_POWER_BITS), _SINGLE.kept_bits)
        # Between the smallest power and the next one numbers have no leading digit.
        above = on.convert(
            "zext", on.compare_number("icmp uge", bits, _SMALLEST_POWER_BITS + _SMALLEST_POWER_BITS // 2), DType.I32
        )
        found = on.select(on.compare_number("icmp ult", bits, 2**_SINGLE.kept_bits), above, nearest)
        none = on.apply("or", on.compare_number("icmp ugt", found, largest), on.compare_number("icmp slt", bits, 1))
        return on.select_number(none, largest + 1, found)

    def _normal_code(self, size: SSAValue, to: DType) -> SSAValue:
        """The code of a number's bits without sign, rounded to the digits of the type; its exponent has no end."""
        on, kind = self._on, float_format(to)
        dropped = _SINGLE.kept_bits - kind.kept_bits
        odd = on.apply_number("and", on.apply_number("lshr", size, dropped), 1)
        rounded = on.apply("add", on.apply_number("add", size, 2 ** (dropped - 1) - 1), odd)
        return on.apply_number(
            "sub", on.apply_number("lshr", rounded, dropped), (_SINGLE.bias - kind.bias) << kind.kept_bits
        )

    def _subnormal_code(self, size: SSAValue, to: DType) -> SSAValue:
        """The code of a size below the smallest normal number: adding a number whose last digit is worth a step rounds
        to it.
        """
        on, kind = self._on, float_format(to)
        steps = 2.0 ** (kind.smallest_exponent - kind.kept_bits + _SINGLE.kept_bits)
        return on.apply_number("sub", on.bits(on.apply_number("fadd", on.bits_to_f32(size), steps)), _f32_bits(steps))


def _f32_bits(value: float) -> int:
    """The bits of a number as an f32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
