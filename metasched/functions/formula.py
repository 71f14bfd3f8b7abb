"""The operations that math functions are written with: lanes with Python's operators, each of which is an instruction
of some target.

A formula serves scalars and vectors of any width, on any target; where one has an instruction for what takes others
several steps, the result is the same. A multiply and an add may be fused where the target can; nothing else is
reordered. A back end makes a `Formula` of its own, with its instructions for the abstract methods.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

from metasched.dtypes import DType, float_format, integer_of_size

Number = float | int


class Lanes:
    """A value of one element type in every lane, or in none (a scalar): the name that a formula's back end gave it."""

    __slots__ = ("dtype", "formula", "name")

    def __init__(self, formula: Formula, name: str, dtype: DType) -> None:
        self.formula = formula
        self.name = name
        self.dtype = dtype

    def __add__(self, other: Lanes | Number) -> Lanes:
        return self.formula.operate("add", self, other)

    def __radd__(self, other: Number) -> Lanes:
        return self.formula.operate("add", other, self)

    def __sub__(self, other: Lanes | Number) -> Lanes:
        return self.formula.operate("sub", self, other)

    def __rsub__(self, other: Number) -> Lanes:
        return self.formula.operate("sub", other, self)

    def __mul__(self, other: Lanes | Number) -> Lanes:
        return self.formula.operate("mul", self, other)

    def __rmul__(self, other: Number) -> Lanes:
        return self.formula.operate("mul", other, self)

    def __truediv__(self, other: Lanes | Number) -> Lanes:
        return self.formula.operate("div", self, other)

    def __rtruediv__(self, other: Number) -> Lanes:
        return self.formula.operate("div", other, self)

    def __neg__(self) -> Lanes:
        return self.formula.negative(self)

    def __lshift__(self, count: int) -> Lanes:
        return self.formula.operate("shl", self, count)

    def __rshift__(self, count: int) -> Lanes:
        return self.formula.operate("ashr", self, count)

    def __and__(self, other: Lanes | int) -> Lanes:
        return self.formula.operate("and", self, other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self.formula.operate("or", self, other)

    def __xor__(self, other: Lanes | int) -> Lanes:
        return self.formula.operate("xor", self, other)

    def __lt__(self, other: Lanes | Number) -> Lanes:
        return self.formula.compare("lt", self, other)

    def __le__(self, other: Lanes | Number) -> Lanes:
        return self.formula.compare("le", self, other)

    def __gt__(self, other: Lanes | Number) -> Lanes:
        return self.formula.compare("gt", self, other)

    def __ge__(self, other: Lanes | Number) -> Lanes:
        return self.formula.compare("ge", self, other)

    def equals(self, other: Lanes | Number) -> Lanes:
        """Lane by lane; false where either is NaN."""
        return self.formula.compare("eq", self, other)


class Formula(ABC):
    """The body of one math function, for one float type.

    The abstract methods are the instructions of a target; the others are made of them.
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    # --- facts of the float type

    @property
    def is_double(self) -> bool:
        return self.dtype is DType.F64

    @property
    def integer(self) -> DType:
        """The integer type of the same size."""
        return integer_of_size(self.dtype.bits)

    @property
    def mantissa(self) -> int:
        """Bits after the leading one."""
        return float_format(self.dtype).significand - 1

    @property
    def bias(self) -> int:
        """The bias of the exponent."""
        return 1 - float_format(self.dtype).smallest_exponent

    @property
    def exponent_bits(self) -> int:
        return self.dtype.bits - self.mantissa - 1

    @property
    def smallest_normal(self) -> float:
        return self.dtype.smallest_normal

    def split(self, exact: Sequence[float], bits: int) -> tuple[float, float]:
        """A constant, given as a sum of doubles, as (its first `bits` bits, the rest)."""
        high = _leading_bits(exact[0], bits)
        return high, math.fsum((*exact, -high))

    @property
    @abstractmethod
    def scales_at_once(self) -> bool:
        """Whether `scale` is one instruction, which takes no longer where its result underflows."""

    # --- instructions

    @abstractmethod
    def lift(self, value: Lanes | Number, dtype: DType | None = None) -> Lanes:
        """A number as a constant, by default of the formula's type; lanes as they are."""

    @abstractmethod
    def operate(self, operation: str, a: Lanes | Number, b: Lanes | Number) -> Lanes:
        """An arithmetic or bitwise operation; a product and a sum may be fused."""

    @abstractmethod
    def compare(self, relation: str, a: Lanes, b: Lanes | Number) -> Lanes:
        """`lt`, `le`, `gt`, `ge` or `eq`; false where either is NaN."""

    @abstractmethod
    def negative(self, x: Lanes) -> Lanes:
        """A float with its sign flipped."""

    @abstractmethod
    def is_nan(self, x: Lanes) -> Lanes: ...

    @abstractmethod
    def select(self, cond: Lanes, a: Lanes | Number, b: Lanes | Number) -> Lanes:
        """`a` in the lanes where `cond` holds, `b` in the others."""

    @abstractmethod
    def bits(self, x: Lanes) -> Lanes:
        """A float's bits as an integer."""

    @abstractmethod
    def from_bits(self, x: Lanes) -> Lanes:
        """The float of an integer's bits."""

    @abstractmethod
    def to_float(self, x: Lanes) -> Lanes:
        """An integer's value."""

    @abstractmethod
    def abs(self, x: Lanes) -> Lanes:
        """The value without its sign; of an integer, too."""

    @abstractmethod
    def sqrt(self, x: Lanes) -> Lanes: ...

    @abstractmethod
    def floor(self, x: Lanes) -> Lanes: ...

    @abstractmethod
    def ceil(self, x: Lanes) -> Lanes: ...

    @abstractmethod
    def rint(self, x: Lanes) -> Lanes:
        """The nearest whole number, ties to even."""

    @abstractmethod
    def copysign(self, x: Lanes, sign: Lanes) -> Lanes:
        """The size of `x` with the sign of `sign`."""

    @abstractmethod
    def fma(self, a: Lanes | Number, b: Lanes | Number, c: Lanes | Number) -> Lanes:
        """`a * b + c` rounded once, on every target: for steps that are wrong otherwise."""

    @abstractmethod
    def exact_product(self, a: Lanes, b: Lanes) -> Lanes:
        """`a * b`, rounded, and never fused into a sum."""

    @abstractmethod
    def inverted(self, cond: Lanes) -> Lanes:
        """Where a condition does not hold."""

    @abstractmethod
    def scale(self, x: Lanes, n: Lanes) -> Lanes:
        """`x * 2^n`, where overflow and denormals come out right; |n| below twice the largest."""

    @abstractmethod
    def widened(self) -> Formula:
        """A formula with this body for steps in double precision."""

    @abstractmethod
    def convert(self, x: Lanes) -> Lanes:
        """A float in this formula's type."""

    @abstractmethod
    def call(self, name: str, *operands: Lanes) -> Lanes:
        """The value of another math function."""

    @abstractmethod
    def beyond(self, cond: Lanes, usual: Lanes, x: Lanes, name: str) -> Lanes:
        """`usual`, but in lanes where `cond` holds the C library's function of `x`; a branch, as they are rare."""

    # --- conditions

    def both(self, a: Lanes, b: Lanes) -> Lanes:
        return self.operate("and", a, b)

    def either(self, a: Lanes, b: Lanes) -> Lanes:
        return self.operate("or", a, b)

    # --- more precision

    def two_product(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        """`a * b` as a rounded product and its error."""
        product = self.exact_product(a, b)
        return product, self.fma(a, b, -product)

    def two_sum(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        """`a + b` as a rounded sum and its error (Knuth)."""
        total = a + b
        b_part = total - a
        return total, (a - (total - b_part)) + (b - b_part)

    # --- steps that formulas share

    def clamp(self, x: Lanes, low: float, high: float) -> Lanes:
        """`x` within bounds; NaN stays NaN."""
        x = self.select(x < low, low, x)
        return self.select(x > high, high, x)

    def polynomial(self, x: Lanes, coefficients: Sequence[float]) -> Lanes:
        """The value of a polynomial by Horner's rule; the constant term comes first."""
        out = self.lift(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            out = out * x + c
        return out

    def nearest(self, x: Lanes) -> tuple[Lanes, Lanes]:
        """The nearest integer of a small float (below 2^22 or 2^51), as a float and as an integer.

        Adding 1.5 * 2^mantissa leaves the integer in the low bits. A NaN gives some integer and no poison.
        """
        magic = math.ldexp(1.5, self.mantissa)
        shifted = x + magic
        pattern = struct.unpack("<q", struct.pack("<d", magic))[0]
        if not self.is_double:
            pattern = struct.unpack("<i", struct.pack("<f", magic))[0]
        return shifted - magic, self.operate("sub", self.bits(shifted), pattern)

    def power_of_two(self, n: Lanes) -> Lanes:
        """2^n of an integer between the exponents of the smallest normal number and of infinity."""
        return self.from_bits((n + self.bias) << self.mantissa)


def _leading_bits(value: float, bits: int) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)
