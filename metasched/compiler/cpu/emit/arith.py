"""Arithmetic on values: one function per operation, the same for scalars and vectors.

Floats are contracted (a multiply and an add may become a fused one) and nothing else, except under `fastmath`: there
sums and products may be regrouped, a division may be by a reciprocal, the sign of a zero is any, and what becomes of a
NaN is undefined. Infinities are as everywhere. Integers wrap. `//` and `%`
floor; division by zero gives zero, as in NumPy, and never a trap. A float becomes an integer towards zero, and within
the integer's range. An integer becomes a narrower one by wrapping.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metasched.compiler.cpu.emit.conversions.half_floats import Halves
from metasched.compiler.cpu.emit.formulas import LlvmFormula, define
from metasched.compiler.cpu.emit.native import NO_FEATURES, Native
from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import SSAValue, constant, lane_list, splat_text, suffix, type_text
from metasched.dtypes import DType, integer_range
from metasched.errors import BuildError
from metasched.functions.registry import functions
from metasched.ir.nodes import BinOp

_FLOAT = {BinOp.ADD: "fadd", BinOp.SUB: "fsub", BinOp.MUL: "fmul", BinOp.DIV: "fdiv"}
_INTEGER = {BinOp.ADD: "add", BinOp.SUB: "sub", BinOp.MUL: "mul"}
_BITS = {BinOp.BIT_AND: "and", BinOp.BIT_OR: "or", BinOp.BIT_XOR: "xor"}
_COMPARE = {BinOp.LT: "lt", BinOp.LE: "le", BinOp.GT: "gt", BinOp.GE: "ge", BinOp.EQ: "eq", BinOp.NE: "ne"}
_STRICT_FLAGS = "contract"
_FAST_FLAGS = "nnan nsz arcp contract reassoc"


class Arithmetic:
    """Emits operations into a function; `declarations` collects the external functions they call.

    f16 and bf16 are computed in f32, and the result of each operation is rounded to them.
    """

    def __init__(self, text: FunctionText, declarations: dict[str, str], native: Native = NO_FEATURES) -> None:
        self._text = text
        self._declarations = declarations
        self.native = native
        self._halves = Halves(text, declarations, native)
        self._flags = _STRICT_FLAGS

    def opaque(self, value: SSAValue) -> SSAValue:
        """An integer with the value of the one given, of which LLVM cannot tell what it was computed of, or that it is
        a constant.
        """
        return SSAValue(self._text.emit_pure(f'call {value.type} asm "", "=r,0"({value.typed})'), value.dtype)

    @contextmanager
    def fastmath(self) -> Iterator[None]:
        """Operations emitted inside may be done in other ways than IEEE's, as this module says."""
        self._flags = _FAST_FLAGS
        try:
            yield
        finally:
            self._flags = _STRICT_FLAGS

    # --- shapes ---

    def widen(self, value: SSAValue, width: int) -> SSAValue:
        """The value in every lane; a vector is left alone."""
        if value.width == width:
            return value
        if value.text[0] != "%":
            return SSAValue(splat_text(value.type, value.text, width), value.dtype, width)
        vector = type_text(value.dtype, width)
        one = self._text.emit_pure(f"insertelement {vector} poison, {value.typed}, i64 0")
        return SSAValue(
            self._text.emit_pure(f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer"),
            value.dtype,
            width,
        )

    def same_width(self, *values: SSAValue) -> tuple[SSAValue, ...]:
        width = max(value.width for value in values)
        return tuple(self.widen(value, width) for value in values)

    def lanes(self, vector: SSAValue, first: int, count: int) -> SSAValue:
        """Some neighbouring lanes as a vector."""
        picks = lane_list(range(first, first + count))
        text = self._text.emit_pure(f"shufflevector {vector.typed}, {vector.type} poison, <{count} x i32> <{picks}>")
        return SSAValue(text, vector.dtype, count)

    def lane(self, vector: SSAValue, n: int) -> SSAValue:
        """One lane as a scalar."""
        return SSAValue(self._text.emit_pure(f"extractelement {vector.typed}, i64 {n}"), vector.dtype)

    def total(self, vector: SSAValue) -> SSAValue:
        """The sum of all lanes of integers.

        It is one operation, as LLVM 22 gets halves added to halves wrong: of products of bytes, or of their distances,
        it makes `vpdpbusd` or `psadbw` and leaves some of the sum out.
        """
        symbol = f"@llvm.vector.reduce.add.{suffix(vector.dtype, vector.width)}"
        scalar = type_text(vector.dtype, 0)
        self._declarations[symbol] = f"declare {scalar} {symbol}({vector.type})"
        return SSAValue(self._text.emit_pure(f"call {scalar} {symbol}({vector.typed})"), vector.dtype)

    # --- operations ---

    def binary(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        a, b = self.same_width(a, b)
        if a.dtype.is_storage:
            wide = self.binary(op, self._halves.extend(a), self._halves.extend(b))
            return self.cast(wide, wide.dtype if op.is_comparison else a.dtype)
        if op.is_comparison:
            return self._compare(op, a, b)
        if op.is_logical:
            return self._emit_binary("and" if op is BinOp.AND else "or", a, b)
        if op in (BinOp.MIN, BinOp.MAX):
            return self._emit_extremum(op, a, b)
        if a.dtype.is_float:
            if op not in _FLOAT:
                hint = "floor division, modulo, bits and shifts are for integers"
                raise BuildError(f"`{op.value}` on {a.dtype}", hint)
            return self._emit_binary(f"{_FLOAT[op]} {self._flags}", a, b)
        if op in _INTEGER:
            return self._emit_binary(_INTEGER[op], a, b)
        if op in _BITS:
            return self._emit_binary(_BITS[op], a, b)
        if op.is_shift:
            return self._shift(op, a, b)
        if op is BinOp.CEILDIV:
            one = constant(1, a.dtype, a.width)
            return self.binary(BinOp.FLOORDIV, self._emit_binary("sub", self._emit_binary("add", a, b), one), b)
        if op in (BinOp.FLOORDIV, BinOp.MOD):
            return self._divide(op, a, b)
        raise BuildError(f"`{op.value}` on {a.dtype}", "`/` is for floats", hint="use `//`")

    def _emit_binary(self, operation: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return SSAValue(self._text.emit_pure(f"{operation} {a.typed}, {b.text}"), a.dtype, a.width)

    def _compare(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        name = _COMPARE[op]
        if a.dtype.is_float:
            kind = "fcmp " + ("une" if op is BinOp.NE else "o" + name)
        elif name in ("eq", "ne"):
            kind = f"icmp {name}"
        else:
            kind = f"icmp {'u' if _is_unsigned(a.dtype) else 's'}{name}"
        return SSAValue(self._text.emit_pure(f"{kind} {a.typed}, {b.text}"), DType.BOOL, a.width)

    def is_nan(self, a: SSAValue) -> SSAValue:
        """Whether a float is no number.

        It is compared with zero: LLVM moves a comparison of a shuffled vector with itself before the shuffle, and
        shuffles bits one by one.
        """
        if a.dtype.is_storage:
            a = self._halves.extend(a)
        zero = constant(0, a.dtype, a.width)
        return SSAValue(self._text.emit_pure(f"fcmp uno {a.typed}, {zero.text}"), DType.BOOL, a.width)

    def select(self, cond: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        if cond.text in ("true", "false"):
            return a if cond.text == "true" else b
        if not cond.width and self.native.masks:
            # One bit picks a vector by a branch, each around a load: there would be little else left of unrolled code.
            cond = self.widen(cond, max(a.width, b.width))
        a, b = self.same_width(a, b) if not cond.width else (self.widen(a, cond.width), self.widen(b, cond.width))
        return SSAValue(self._text.emit_pure(f"select {cond.typed}, {a.typed}, {b.typed}"), a.dtype, a.width)

    def invert(self, cond: SSAValue) -> SSAValue:
        if cond.text in ("true", "false"):
            return constant(cond.text == "false", DType.BOOL)
        return self._emit_binary("xor", cond, constant(True, DType.BOOL, cond.width))

    def negate(self, a: SSAValue) -> SSAValue:
        if a.dtype.is_storage:
            return self.cast(self.negate(self._halves.extend(a)), a.dtype)
        if a.dtype.is_float:
            return SSAValue(self._text.emit_pure(f"fneg {a.typed}"), a.dtype, a.width)
        return self._emit_binary("sub", constant(0, a.dtype, a.width), a)

    def _emit_extremum(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        """NaN in either operand gives NaN. `x > y ? x : y` is one x86 instruction, which yields y when unordered."""
        compare = BinOp.LT if op is BinOp.MIN else BinOp.GT
        if not a.dtype.is_float:
            return self.select(self._compare(compare, a, b), a, b)
        if b.text[0] != "%":  # a constant is no NaN, so the other operand goes where a NaN comes through
            a, b = b, a
        if a.text[0] != "%" or self._flags == _FAST_FLAGS:
            return self.select(self._compare(compare, a, b), a, b)
        return self._call_extremum("llvm.minimum" if op is BinOp.MIN else "llvm.maximum", b, a)

    def _call_extremum(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """LLVM's, where both operands may be NaN: three instructions, and the first operand is compared with itself.

        So a reduction's total is the second: its comparison would be one more step between one term and the next, and a
        total in memory would be written under a mask, from which a load does not forward.
        """
        symbol = f"@{name}.{suffix(a.dtype, a.width)}"
        self._declarations[symbol] = f"declare {a.type} {symbol}({a.type}, {a.type})"
        return SSAValue(self._text.emit_pure(f"call nsz {a.type} {symbol}({a.typed}, {b.typed})"), a.dtype, a.width)

    def _shift(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        """A shift, which for less than 0 places, or as many as there are or more, fills all bits with what comes in."""
        signed = op is BinOp.SHIFT_RIGHT and not _is_unsigned(a.dtype)
        name = "shl" if op is BinOp.SHIFT_LEFT else "ashr" if signed else "lshr"
        bits = a.dtype.bits
        if b.text[0] != "%" and 0 <= _first_number(b.text) < bits:
            return self._emit_binary(name, a, b)
        last = constant(bits - 1, a.dtype, a.width)
        inside = SSAValue(self._text.emit_pure(f"icmp ule {b.typed}, {last.text}"), DType.BOOL, a.width)
        shifted = self._emit_binary(name, a, self.select(inside, b, last))
        return shifted if signed else self.select(inside, shifted, constant(0, a.dtype, a.width))

    def _divide(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        """Floor division and modulo of integers."""
        if _is_unsigned(a.dtype):
            zero = constant(0, b.dtype, b.width)
            none = self._compare(BinOp.EQ, b, zero)
            divisor = self.select(none, constant(1, b.dtype, b.width), b)
            result = self._emit_binary("udiv" if op is BinOp.FLOORDIV else "urem", a, divisor)
            return self.select(none, zero, result)
        if b.text[0] != "%" and _first_number(b.text) not in (0, -1):
            return self._floor_divide(op, a, b)
        zero, minus = constant(0, b.dtype, b.width), constant(-1, b.dtype, b.width)
        none = self._compare(BinOp.EQ, b, zero)
        # The most negative number over -1 traps on x86, so -1 is a case of its own.
        flips = self._compare(BinOp.EQ, b, minus)
        divisor = self.select(self._emit_binary("or", none, flips), constant(1, b.dtype, b.width), b)
        usual = self._floor_divide(op, a, divisor)
        flipped = self._emit_binary("sub", zero, a) if op is BinOp.FLOORDIV else zero
        return self.select(none, zero, self.select(flips, flipped, usual))

    def _floor_divide(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        remainder = self._emit_binary("srem", a, b)
        zero = constant(0, a.dtype, a.width)
        signs_differ = self._compare(BinOp.LT, self._emit_binary("xor", remainder, b), zero)
        adjust = self._emit_binary("and", self._compare(BinOp.NE, remainder, zero), signs_differ)
        if op is BinOp.MOD:
            return self.select(adjust, self._emit_binary("add", remainder, b), remainder)
        quotient = self._emit_binary("sdiv", a, b)
        return self.select(adjust, self._emit_binary("add", quotient, constant(-1, a.dtype, a.width)), quotient)

    def nonnegative_divide(self, op: BinOp, a: SSAValue, divisor: int) -> SSAValue:
        """A quotient or remainder of a dividend known to be non-negative by a positive constant."""
        return self._emit_binary("udiv" if op is BinOp.FLOORDIV else "urem", a, constant(divisor, a.dtype, a.width))

    def short_divide(self, op: BinOp, a: SSAValue, divisor: int) -> SSAValue:
        """As `nonnegative_divide`, of numbers known to fit in 32 bits, where a constant takes a multiplication and a
        shift: in 64 bits it takes three times as many instructions, and in lanes ten times.
        """
        narrow = self._convert("trunc", a, DType.U32)
        return self._convert("zext", self.nonnegative_divide(op, narrow, divisor), a.dtype)

    # --- conversions ---

    def cast(self, a: SSAValue, to: DType) -> SSAValue:
        if a.dtype is to:
            return a
        if a.dtype.is_storage:
            return self.cast(self._halves.extend(a), to)
        if to.is_storage:
            return self._halves.round(self.cast(a, to.compute), to)
        if to.is_bool:
            return self._compare(BinOp.NE, a, constant(0, a.dtype, a.width))
        if a.dtype.is_float and to.is_float:
            return self._convert("fpext" if to.bits > a.dtype.bits else "fptrunc", a, to)
        if a.dtype.is_float:
            return self._float_to_integer(a, to)
        if to.is_float:
            return self._convert("uitofp" if _is_unsigned(a.dtype) else "sitofp", a, to)
        if to.bits == a.dtype.bits and not a.dtype.is_bool:
            return SSAValue(a.text, to, a.width)
        if to.bits < a.dtype.bits:
            return self._convert("trunc", a, to)
        return self._convert("zext" if _is_unsigned(a.dtype) else "sext", a, to)

    def _float_to_integer(self, a: SSAValue, to: DType) -> SSAValue:
        """Floats to integers: towards zero, to the nearest end of the range what is outside it, and NaN to 0."""
        if a.width and to.bits < DType.I32.bits:
            return self._floats_to_short(a, to)
        if a.width:
            return self._floats_to_words(a, to)
        name = "llvm.fptoui.sat" if _is_unsigned(to) else "llvm.fptosi.sat"
        symbol = f"@{name}.{suffix(to, a.width)}.{suffix(a.dtype, a.width)}"
        out = type_text(to, a.width)
        self._declarations[symbol] = f"declare {out} {symbol}({a.type})"
        return SSAValue(self._text.emit_pure(f"call {out} {symbol}({a.typed})"), to, a.width)

    def round_to_short(self, a: SSAValue, to: DType) -> SSAValue:
        """The nearest short integer to a single-precision float, of two the even one; bounds and NaN as in `cast`."""
        if not a.width:
            return self.cast(self.call("rint", (a,)), to)
        # Beside this number others are 1 apart: adding it rounds, and leaves an integer in the last bits.
        shift = constant(1.5 * 2**23, a.dtype, a.width)
        text = self._text.emit_pure(f"fadd {self._to_range(a, to).typed}, {shift.text}")
        bits = self._text.emit_pure(f"bitcast {a.type} {text} to {type_text(DType.I32, a.width)}")
        return self._convert("trunc", SSAValue(bits, DType.I32, a.width), to)

    def _floats_to_short(self, a: SSAValue, to: DType) -> SSAValue:
        """Convert to short integers by range first: else LLVM converts vectors lane by lane."""
        return self._convert("trunc", self._convert("fptosi", self._to_range(a, to), DType.I32), to)

    def _to_range(self, a: SSAValue, to: DType) -> SSAValue:
        """A float, or the end of an integer type's range that is nearest; zero for NaN."""
        zero, lowest, last = (constant(n, a.dtype, a.width) for n in (0, *integer_range(to)))
        if _is_unsigned(to):  # one instruction, which yields the second operand where the first is NaN
            x = self.select(self._compare(BinOp.GT, a, zero), a, zero)
        else:
            x = self.select(self.is_nan(a), zero, a)
            x = self.select(self._compare(BinOp.LT, x, lowest), lowest, x)
        return self.select(self._compare(BinOp.LT, x, last), x, last)

    def _floats_to_words(self, a: SSAValue, to: DType) -> SSAValue:
        """Vectors of 32 and 64 bits, which LLVM would convert lane by lane, too; f32 holds all ends but the last."""
        lowest, last = integer_range(to)
        zero, least, beyond = (constant(n, a.dtype, a.width) for n in (0, lowest, last + 1))
        above = self._compare(BinOp.GE, a, beyond)
        x = self.select(self.is_nan(a), zero, a)
        x = self.select(self._compare(BinOp.LT, x, least), least, x)
        x = self.select(above, zero, x)
        whole = self._convert("fptoui" if to.is_unsigned else "fptosi", x, to)
        return self.select(above, constant(last, to, a.width), whole)

    def _convert(self, operation: str, a: SSAValue, to: DType) -> SSAValue:
        return SSAValue(self._text.emit_pure(f"{operation} {a.typed} to {type_text(to, a.width)}"), to, a.width)

    def any_lane(self, cond: SSAValue) -> str:
        """Whether any lane of a vector of bools is set."""
        symbol = f"@llvm.vector.reduce.or.v{cond.width}i1"
        self._declarations[symbol] = f"declare i1 {symbol}({cond.type})"
        return self._text.emit_pure(f"call i1 {symbol}({cond.typed})")

    # --- functions ---

    def call(self, name: str, args: tuple[SSAValue, ...]) -> SSAValue:
        """A math function by its name in the language (`metasched.functions`)."""
        args = self.same_width(*args)
        x = args[0]
        if x.dtype.is_storage:
            return self.cast(self.call(name, tuple(self._halves.extend(arg) for arg in args)), x.dtype)
        function = functions().get(name)
        if function is None:
            raise BuildError(f"function `{name}`", "the compiler does not know this function")
        if function.in_place:
            formula = LlvmFormula(x.dtype, x.width, self.native, self._declarations, self._text.emit_pure)
            return formula.value(function.formula(formula, *map(formula.lanes, args)))
        # LLVM inlines it.
        symbol = define(function, x.dtype, x.width, self.native, self._declarations)
        operands = ", ".join(arg.typed for arg in args)
        return SSAValue(self._text.emit_pure(f"call {x.type} {symbol}({operands})"), x.dtype, x.width)


def _is_unsigned(dtype: DType) -> bool:
    return dtype.is_unsigned or dtype.is_bool


def _first_number(text: str) -> int:
    """The number in a scalar or equal-laned vector constant."""
    return int(text[1:-1].split(",", maxsplit=1)[0].rsplit(maxsplit=1)[-1]) if text[0] == "<" else int(text)
