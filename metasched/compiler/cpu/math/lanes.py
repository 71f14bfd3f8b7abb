"""What math functions are written in: lanes with Python's operators, each of which emits an LLVM instruction.

The same formula serves scalars and vectors of any width, on any target; where one has an instruction for what takes
others several steps, the result is the same. A multiply
and an add may be fused where the target can (`contract`); nothing else is reordered.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from metasched.compiler.cpu.emit.native import Native
from metasched.compiler.cpu.emit.types import Value, constant, suffix, type_text
from metasched.dtypes import DType

Number = float | int
# What adds the definition of a math function by its name, for an element type and a width, and returns its symbol.
FunctionDefiner = Callable[[str, DType, int, Native, dict[str, str]], str]
_INTEGERS = {DType.F32: DType.I32, DType.F64: DType.I64}
_MANTISSA = {DType.F32: 23, DType.F64: 52}
_BIAS = {DType.F32: 127, DType.F64: 1023}


class Lanes:
    """A value of one element type in every lane, or in none (a scalar)."""

    __slots__ = ("formula", "value")

    def __init__(self, formula: Formula, value: Value) -> None:
        self.formula = formula
        self.value = value

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
        return self.formula.instruction(f"fneg {self.value.typed}", self.value.dtype)

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


class Formula:
    """The body of one math function, for one float type and one number of lanes (0 for a scalar)."""

    def __init__(
        self, dtype: DType, width: int, native: Native, declarations: dict[str, str], define: FunctionDefiner
    ) -> None:
        self.dtype = dtype
        self.width = width
        self.native = native
        self.declarations = declarations
        self._define = define
        self.lines: list[str] = []
        self._known: dict[str, str] = {}

    # --- facts of the float type

    @property
    def is_double(self) -> bool:
        return self.dtype is DType.F64

    @property
    def integer(self) -> DType:
        """The integer type of the same size."""
        return _INTEGERS[self.dtype]

    @property
    def mantissa(self) -> int:
        """Bits after the leading one."""
        return _MANTISSA[self.dtype]

    @property
    def bias(self) -> int:
        """Of the exponent."""
        return _BIAS[self.dtype]

    @property
    def exponent_bits(self) -> int:
        return self.dtype.bits - self.mantissa - 1

    @property
    def smallest_normal(self) -> float:
        return math.ldexp(1.0, 1 - self.bias)

    def split(self, exact: Sequence[float], bits: int) -> tuple[float, float]:
        """A constant, given as a sum of doubles, as (its first `bits` bits, the rest)."""
        high = _leading(exact[0], bits)
        return high, math.fsum((*exact, -high))

    # --- instructions

    def instruction(self, text: str, dtype: DType) -> Lanes:
        """A pure instruction, once."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%m.{len(self.lines)}"
            self.lines.append(f"  {name} = {text}")
        return Lanes(self, Value(name, dtype, self.width))

    def lift(self, value: Lanes | Number, dtype: DType | None = None) -> Lanes:
        """A number as a constant."""
        if isinstance(value, Lanes):
            return value
        return Lanes(self, constant(value, dtype or self.dtype, self.width))

    def operate(self, operation: str, a: Lanes | Number, b: Lanes | Number) -> Lanes:
        dtype = a.value.dtype if isinstance(a, Lanes) else b.value.dtype if isinstance(b, Lanes) else self.dtype
        left, right = self.lift(a, dtype), self.lift(b, dtype)
        name = f"f{operation} contract" if dtype.is_float else operation
        return self.instruction(f"{name} {left.value.typed}, {right.value.text}", dtype)

    def compare(self, relation: str, a: Lanes, b: Lanes | Number) -> Lanes:
        dtype = a.value.dtype
        sign = "" if relation == "eq" else "s"
        kind = f"fcmp o{relation}" if dtype.is_float else f"icmp {sign}{relation}"
        return self.instruction(f"{kind} {a.value.typed}, {self.lift(b, dtype).value.text}", DType.BOOL)

    def is_nan(self, x: Lanes) -> Lanes:
        return self.instruction(f"fcmp uno {x.value.typed}, {x.value.text}", DType.BOOL)

    def select(self, cond: Lanes, a: Lanes | Number, b: Lanes | Number) -> Lanes:
        """`a` in the lanes where `cond` holds, `b` in the others."""
        like = a if isinstance(a, Lanes) else b
        dtype = like.value.dtype if isinstance(like, Lanes) else self.dtype
        left, right = self.lift(a, dtype), self.lift(b, dtype)
        return self.instruction(f"select {cond.value.typed}, {left.value.typed}, {right.value.typed}", dtype)

    def clamp(self, x: Lanes, low: float, high: float) -> Lanes:
        """`x` within bounds; NaN stays NaN."""
        x = self.select(x < low, low, x)
        return self.select(x > high, high, x)

    def bits(self, x: Lanes) -> Lanes:
        """A float's bits as an integer."""
        to = type_text(self.integer, self.width)
        return self.instruction(f"bitcast {x.value.typed} to {to}", self.integer)

    def from_bits(self, x: Lanes) -> Lanes:
        to = type_text(self.dtype, self.width)
        return self.instruction(f"bitcast {x.value.typed} to {to}", self.dtype)

    def to_float(self, x: Lanes) -> Lanes:
        """An integer's value."""
        to = type_text(self.dtype, self.width)
        return self.instruction(f"sitofp {x.value.typed} to {to}", self.dtype)

    def intrinsic(self, name: str, *operands: Lanes | Number) -> Lanes:
        """An LLVM intrinsic over floats."""
        lanes = [self.lift(x).value for x in operands]
        result = type_text(self.dtype, self.width)
        symbol = f"@llvm.{name}.{suffix(self.dtype, self.width)}"
        self.declarations[symbol] = f"declare {result} {symbol}({', '.join(x.type for x in lanes)})"
        return self.instruction(f"call {result} {symbol}({', '.join(x.typed for x in lanes)})", self.dtype)

    def call(self, name: str, *operands: Lanes) -> Lanes:
        """Another math function of this package."""
        symbol = self._define(name, self.dtype, self.width, self.native, self.declarations)
        values = ", ".join(x.value.typed for x in operands)
        return self.instruction(f"call {type_text(self.dtype, self.width)} {symbol}({values})", self.dtype)

    # --- conditions

    def both(self, a: Lanes, b: Lanes) -> Lanes:
        return self.operate("and", a, b)

    def either(self, a: Lanes, b: Lanes) -> Lanes:
        return self.operate("or", a, b)

    def negated(self, cond: Lanes) -> Lanes:
        return self.instruction(f"xor {cond.value.typed}, {constant(True, DType.BOOL, self.width).text}", DType.BOOL)

    # --- more precision

    def widened(self) -> Formula:
        """The same body for steps in double precision."""
        if self.is_double:
            return self
        wide = Formula(DType.F64, self.width, self.native, self.declarations, self._define)
        wide.lines, wide._known = self.lines, self._known
        return wide

    def convert(self, x: Lanes) -> Lanes:
        """A float in this formula's type."""
        if x.value.dtype is self.dtype:
            return x
        operation = "fpext" if self.is_double else "fptrunc"
        return self.instruction(f"{operation} {x.value.typed} to {type_text(self.dtype, self.width)}", self.dtype)

    def two_product(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        """`a * b` as a rounded product and its error. The product is never fused into a sum."""
        product = self.instruction(f"fmul {a.value.typed}, {b.value.text}", self.dtype)
        return product, self.fma(a, b, -product)

    def two_sum(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        """`a + b` as a rounded sum and its error (Knuth)."""
        total = a + b
        b_part = total - a
        return total, (a - (total - b_part)) + (b - b_part)

    # --- steps that formulas share

    def abs(self, x: Lanes) -> Lanes:
        return self.intrinsic("fabs", x)

    def copysign(self, x: Lanes, sign: Lanes) -> Lanes:
        return self.intrinsic("copysign", x, sign)

    def fma(self, a: Lanes | Number, b: Lanes | Number, c: Lanes | Number) -> Lanes:
        """`a * b + c` rounded once, on every target: for steps that are wrong otherwise."""
        return self.intrinsic("fma", a, b, c)

    def polynomial(self, x: Lanes, coefficients: Sequence[float]) -> Lanes:
        """By Horner's rule; the constant term comes first."""
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

    def scale(self, x: Lanes, n: Lanes) -> Lanes:
        """`x * 2^n`, where overflow and denormals come out right; |n| below twice the largest."""
        if self.width and self.native.scales:
            return self._scaled(x, n)
        half = n >> 1
        return x * self.power_of_two(half) * self.power_of_two(n - half)

    def _scaled(self, x: Lanes, n: Lanes) -> Lanes:
        lanes = suffix(self.dtype, self.width)
        symbol = f"@llvm.ldexp.{lanes}.v{self.width}i32"
        type_, power = type_text(self.dtype, self.width), n.value
        self.declarations[symbol] = f"declare {type_} {symbol}({type_}, {type_text(DType.I32, self.width)})"
        if self.is_double:
            power = self.instruction(f"trunc {power.typed} to {type_text(DType.I32, self.width)}", DType.I32).value
        return self.instruction(f"call {type_} {symbol}({x.value.typed}, {power.typed})", self.dtype)

    def beyond(self, cond: Lanes, usual: Lanes, x: Lanes, name: str) -> Lanes:
        """`usual`, but in lanes where `cond` holds the C library's function of `x`; a branch, as they are rare."""
        if self.width:
            symbol = f"@llvm.vector.reduce.or.v{self.width}i1"
            self.declarations[symbol] = f"declare i1 {symbol}({cond.value.type})"
            some = self.instruction(f"call i1 {symbol}({cond.value.typed})", DType.BOOL).value.text
        else:
            some = cond.value.text
        type_ = type_text(self.dtype, self.width)
        rare = self._library(name)
        self.lines += [f"  br i1 {some}, label %rare, label %done", "rare:"]
        value = f"%m.{len(self.lines)}"
        self.lines.append(f"  {value} = call {type_} {rare}({x.value.typed})")
        self.lines += [
            f"  %picked = select {cond.value.typed}, {type_} {value}, {usual.value.typed}",
            "  br label %done",
            "done:",
            f"  %result = phi {type_} [ {usual.value.text}, %0 ], [ %picked, %rare ]",
        ]
        return Lanes(self, Value("%result", self.dtype, self.width))

    def _library(self, name: str) -> str:
        """A function over lanes that calls the C library's for each."""
        scalar = type_text(self.dtype)
        external = f"@{name}{'' if self.is_double else 'f'}"
        self.declarations[external] = f"declare {scalar} {external}({scalar}) nounwind willreturn memory(none)"
        if not self.width:
            return external
        symbol = f"@library.{name}.{suffix(self.dtype, self.width)}"
        type_ = type_text(self.dtype, self.width)
        lines, out = [], "poison"
        for n in range(self.width):
            lines += [
                f"  %x.{n} = extractelement {type_} %x, i64 {n}",
                f"  %y.{n} = call {scalar} {external}({scalar} %x.{n})",
                f"  %out.{n} = insertelement {type_} {out}, {scalar} %y.{n}, i64 {n}",
            ]
            out = f"%out.{n}"
        body = "\n".join(lines)
        self.declarations[symbol] = (
            f"define internal {type_} {symbol}({type_} %x) noinline nounwind willreturn memory(none) "
            f"{{\n{body}\n  ret {type_} {out}\n}}"
        )
        return symbol


def _leading(value: float, bits: int) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)
