"""Conversions between f32 and floats of at most 8 bits, by their formats: integer arithmetic, the same in every lane.

Numbers are rounded to nearest, ties to even. What is beyond the largest one, and what becomes of NaN and of a negative
zero, is as `metasched.dtypes.Beyond` says.
"""

from __future__ import annotations

import math
import struct

from metasched.compiler.cpu.emit.float_bits import FloatBits
from metasched.compiler.cpu.emit.types import SSAValue
from metasched.dtypes import Beyond, DType, float_format

_SINGLE, _HALF = float_format(DType.F32), float_format(DType.F16)
_INFINITY = 0x7F800000
_NAN = 0x7FC00000
_SMALLEST = 1 << (_SINGLE.kept_bits - 1)  # 2**-127, the smallest power of two of 8 bits


class SmallFloats:
    """Emits the conversions, in which a value of such a type is its bits."""

    def __init__(self, on: FloatBits) -> None:
        self._on = on

    def extend(self, code: SSAValue) -> SSAValue:
        """The f32 value of a number: exact."""
        on, kind = self._on, float_format(code.dtype)
        bits = on.convert("zext", code, DType.I32)
        if kind.has_powers_alone:
            return self._power(bits)
        size = on.op("and", bits, 2**kind.sign - 1)
        shifted = on.op("shl", size, _SINGLE.kept_bits - kind.kept_bits)
        normal = on.op("add", shifted, (_SINGLE.bias - kind.bias) << _SINGLE.kept_bits)
        # By way of an integer: a product of subnormal numbers of f32 takes long on many CPUs.
        step = 2.0 ** (kind.smallest_exponent - kind.kept_bits)
        small = on.bits(on.op("fmul", on.convert("sitofp", size, DType.F32), step))
        found = on.select(on.compare("icmp ult", size, 2**kind.kept_bits), small, normal)
        if kind.beyond is Beyond.ONE_NAN:
            found = on.choose(on.compare("icmp eq", bits, 2**kind.sign), _NAN, found)
        elif kind.beyond is not Beyond.NOTHING:
            above = on.compare("icmp ugt", size, kind.largest_code)
            found = on.select(above, on.op("or", shifted, _INFINITY), found)
        sign = on.op("shl", on.op("and", bits, 2**kind.sign), _SINGLE.sign - kind.sign)
        return on.single(on.both("or", found, sign))

    @staticmethod
    def in_f16(dtype: DType) -> bool:
        """Whether the codes of a type are codes of f16, once moved, but for an exponent that is off by a constant."""
        kind = float_format(dtype)
        return kind.sign < _HALF.exponent + kind.kept_bits or (kind.bias, kind.beyond) == (_HALF.bias, _HALF.beyond)

    def extended_by_f16(self, code: SSAValue) -> SSAValue:
        """The f32 of a code of a type that `in_f16` holds of, by the target's instruction for f16."""
        on, kind = self._on, float_format(code.dtype)
        bits = on.convert("zext", code, DType.I16)
        # The sign goes to its place, and the rest back by as many as the exponent has less bits.
        moved = on.op("shl", bits, _HALF.sign - kind.sign)
        if kind.exponent < _HALF.exponent:
            moved = on.op("ashr", moved, _HALF.exponent - kind.exponent)
            moved = on.op("and", moved, 2**_HALF.sign + ((2**kind.sign - 1) << (_HALF.kept_bits - kind.kept_bits)))
        found = on.half(moved)
        if kind.bias != _HALF.bias:
            found = on.op("fmul", found, 2.0 ** (_HALF.bias - kind.bias))
        if kind.beyond is Beyond.ONE_NAN:
            return on.choose(on.compare("icmp eq", bits, 2**kind.sign), math.nan, found)
        if kind.beyond is Beyond.NAN:
            last = on.compare("icmp eq", on.op("or", bits, 2**kind.sign), 2 ** (kind.sign + 1) - 1)
            return on.choose(last, math.nan, found)
        return found

    def round(self, value: SSAValue, to: DType) -> SSAValue:
        """An f32 value rounded to such a type."""
        on, kind = self._on, float_format(to)
        bits = on.bits(value)
        if kind.has_powers_alone:
            return on.convert("trunc", self._exponent(bits, kind.largest_code), to)
        size = on.op("and", bits, 2**_SINGLE.sign - 1)
        found = on.select(
            on.compare("icmp ult", size, _bits(2.0**kind.smallest_exponent)),
            self._subnormal(size, to),
            self._normal(size, to),
        )
        above = on.compare("icmp ugt", found, kind.largest_code)
        sign = on.op("lshr", on.op("and", bits, 2**_SINGLE.sign), _SINGLE.sign - kind.sign)
        match kind.beyond:
            case Beyond.INFINITY:
                found = on.choose(above, kind.largest_code + 1, found)
                found = on.choose(on.is_nan(value), kind.largest_code + 1 + 2 ** (kind.kept_bits - 1), found)
                found = on.both("or", found, sign)
            case Beyond.NAN:
                found = on.both("or", on.choose(above, kind.largest_code + 1, found), sign)
            case Beyond.ONE_NAN:
                signed = on.both("or", found, sign)
                found = on.choose(on.compare("icmp eq", found, 0), 0, signed)
                found = on.choose(above, 2**kind.sign, found)
            case Beyond.NOTHING:
                found = on.both("or", on.choose(above, kind.largest_code, found), sign)
                found = on.choose(on.is_nan(value), 0, found)
        return on.convert("trunc", found, to)

    def _power(self, exponent: SSAValue) -> SSAValue:
        """The power of two of an f32's exponent, of which the first is that of subnormal numbers, and the last NaN."""
        on = self._on
        found = on.choose(on.compare("icmp eq", exponent, 0), _SMALLEST, on.op("shl", exponent, _SINGLE.kept_bits))
        return on.single(on.choose(on.compare("icmp eq", exponent, 2**_SINGLE.exponent - 1), _NAN, found))

    def _exponent(self, bits: SSAValue, largest: int) -> SSAValue:
        """The exponent of the nearest power of two, the larger one of two; after the largest what has none."""
        on = self._on
        nearest = on.op("lshr", on.op("add", bits, _SMALLEST), _SINGLE.kept_bits)
        # Between the smallest power and the next one numbers have no leading digit.
        above = on.convert("zext", on.compare("icmp uge", bits, _SMALLEST + _SMALLEST // 2), DType.I32)
        found = on.select(on.compare("icmp ult", bits, 2**_SINGLE.kept_bits), above, nearest)
        none = on.both("or", on.compare("icmp ugt", found, largest), on.compare("icmp slt", bits, 1))
        return on.choose(none, largest + 1, found)

    def _normal(self, size: SSAValue, to: DType) -> SSAValue:
        """The code of a number's bits without sign, rounded to the digits of the type; its exponent has no end."""
        on, kind = self._on, float_format(to)
        dropped = _SINGLE.kept_bits - kind.kept_bits
        odd = on.op("and", on.op("lshr", size, dropped), 1)
        rounded = on.both("add", on.op("add", size, 2 ** (dropped - 1) - 1), odd)
        return on.op("sub", on.op("lshr", rounded, dropped), (_SINGLE.bias - kind.bias) << kind.kept_bits)

    def _subnormal(self, size: SSAValue, to: DType) -> SSAValue:
        """The code of a size below the smallest normal number: adding a number whose last digit is worth a step rounds
        to it.
        """
        on, kind = self._on, float_format(to)
        steps = 2.0 ** (kind.smallest_exponent - kind.kept_bits + _SINGLE.kept_bits)
        return on.op("sub", on.bits(on.op("fadd", on.single(size), steps)), _bits(steps))


def _bits(value: float) -> int:
    """The bits of a number as an f32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
