"""Integers of less than 8 bits, which lie in the lowest bits of a byte.

The others do not count where a byte is read, and are zero where it is written, as in arrays of ml_dtypes.
"""

from __future__ import annotations

from metasched.compiler.cpu.emit.conversions.float_bits import FloatBits
from metasched.compiler.cpu.emit.types import SSAValue
from metasched.dtypes import DType


class SmallIntegers:
    """Emits their conversions from and to the integers of 8 bits that they are computed in."""

    def __init__(self, on: FloatBits) -> None:
        self._on = on

    def extend(self, code: SSAValue) -> SSAValue:
        """The number of a byte."""
        whole, digits = SSAValue(code.text, code.dtype.compute, code.width), code.dtype.digits
        if code.dtype.is_unsigned:
            return self._on.apply_number("and", whole, 2**digits - 1)
        return self._on.apply_number(
            "ashr", self._on.apply_number("shl", whole, code.dtype.bits - digits), code.dtype.bits - digits
        )

    def wrap(self, value: SSAValue, to: DType) -> SSAValue:
        """The byte of a number, of which the lowest bits are kept."""
        lowest = self._on.apply_number("and", value, 2**to.digits - 1)
        return SSAValue(lowest.text, to, value.width)
