"""Math functions in LLVM: their formulas (`metasched.functions.library`) as instructions, inlined into kernels."""

from __future__ import annotations

from collections.abc import Callable

from metasched.compiler.cpu.emit.native import Native
from metasched.compiler.cpu.emit.types import SSAValue, constant, suffix, type_text
from metasched.dtypes import DType
from metasched.functions.declaration import MathFunction
from metasched.functions.formula import Formula, Lanes, Number
from metasched.functions.registry import functions

# Adds an instruction to a function under construction and gives the name of its result, the same for the same text.
Emit = Callable[[str], str]


class LlvmFormula(Formula):
    """A formula as LLVM's instructions for one number of lanes (0 for a scalar), which are handed to `emit`."""

    def __init__(self, dtype: DType, width: int, native: Native, declarations: dict[str, str], emit: Emit) -> None:
        super().__init__(dtype)
        self.width = width
        self.native = native
        self.declarations = declarations
        self._emit = emit

    def lanes(self, value: SSAValue) -> Lanes:
        """A value of LLVM's as what formulas compute with."""
        return Lanes(self, value.text, value.dtype)

    def value(self, x: Lanes) -> SSAValue:
        return SSAValue(x.name, x.dtype, self.width)

    @property
    def scales_at_once(self) -> bool:
        return self.width > 0 and self.native.scales

    # --- instructions

    def lift(self, value: Lanes | Number, dtype: DType | None = None) -> Lanes:
        if isinstance(value, Lanes):
            return value
        return self.lanes(constant(value, dtype or self.dtype, self.width))

    def operate(self, operation: str, a: Lanes | Number, b: Lanes | Number) -> Lanes:
        dtype = a.dtype if isinstance(a, Lanes) else b.dtype if isinstance(b, Lanes) else self.dtype
        left, right = self.lift(a, dtype), self.lift(b, dtype)
        name = f"f{operation} contract" if dtype.is_float else operation
        return self._instruction(f"{name} {self._typed_text(left)}, {right.name}", dtype)

    def compare(self, relation: str, a: Lanes, b: Lanes | Number) -> Lanes:
        sign = "" if relation == "eq" else "s"
        kind = f"fcmp o{relation}" if a.dtype.is_float else f"icmp {sign}{relation}"
        return self._instruction(f"{kind} {self._typed_text(a)}, {self.lift(b, a.dtype).name}", DType.BOOL)

    def negative(self, x: Lanes) -> Lanes:
        return self._instruction(f"fneg {self._typed_text(x)}", x.dtype)

    def is_nan(self, x: Lanes) -> Lanes:
        return self._instruction(f"fcmp uno {self._typed_text(x)}, {self.lift(0.0, x.dtype).name}", DType.BOOL)

    def select(self, cond: Lanes, a: Lanes | Number, b: Lanes | Number) -> Lanes:
        like = a if isinstance(a, Lanes) else b
        dtype = like.dtype if isinstance(like, Lanes) else self.dtype
        left, right = self.lift(a, dtype), self.lift(b, dtype)
        return self._instruction(
            f"select {self._typed_text(cond)}, {self._typed_text(left)}, {self._typed_text(right)}", dtype
        )

    def bits(self, x: Lanes) -> Lanes:
        return self._convert_lanes("bitcast", x, self.integer)

    def from_bits(self, x: Lanes) -> Lanes:
        return self._convert_lanes("bitcast", x, self.dtype)

    def to_float(self, x: Lanes) -> Lanes:
        return self._convert_lanes("sitofp", x, self.dtype)

    def abs(self, x: Lanes) -> Lanes:
        if x.dtype.is_float:
            return self._call_intrinsic("fabs", x)
        if x.dtype.is_unsigned:
            return x
        type_, symbol = self._type(x.dtype), f"@llvm.abs.{suffix(x.dtype, self.width)}"
        self.declarations[symbol] = f"declare {type_} {symbol}({type_}, i1)"
        return self._instruction(f"call {type_} {symbol}({self._typed_text(x)}, i1 false)", x.dtype)

    def sqrt(self, x: Lanes) -> Lanes:
        return self._call_intrinsic("sqrt", x)

    def floor(self, x: Lanes) -> Lanes:
        return self._call_intrinsic("floor", x)

    def ceil(self, x: Lanes) -> Lanes:
        return self._call_intrinsic("ceil", x)

    def rint(self, x: Lanes) -> Lanes:
        return self._call_intrinsic("roundeven", x)

    def copysign(self, x: Lanes, sign: Lanes) -> Lanes:
        return self._call_intrinsic("copysign", x, sign)

    def fma(self, a: Lanes | Number, b: Lanes | Number, c: Lanes | Number) -> Lanes:
        return self._call_intrinsic("fma", a, b, c)

    def exact_product(self, a: Lanes, b: Lanes) -> Lanes:
        return self._instruction(f"fmul {self._typed_text(a)}, {b.name}", self.dtype)

    def inverted(self, cond: Lanes) -> Lanes:
        return self._instruction(
            f"xor {self._typed_text(cond)}, {constant(True, DType.BOOL, self.width).text}", DType.BOOL
        )

    def scale(self, x: Lanes, n: Lanes) -> Lanes:
        if self.scales_at_once:
            return self._scale_by_power(x, n)
        half = n >> 1
        return x * self.power_of_two(half) * self.power_of_two(n - half)

    def _scale_by_power(self, x: Lanes, n: Lanes) -> Lanes:
        symbol = f"@llvm.ldexp.{suffix(self.dtype, self.width)}.v{self.width}i32"
        type_ = self._type(self.dtype)
        self.declarations[symbol] = f"declare {type_} {symbol}({type_}, {self._type(DType.I32)})"
        power = self._convert_lanes("trunc", n, DType.I32) if self.is_double else n
        return self._instruction(f"call {type_} {symbol}({self._typed_text(x)}, {self._typed_text(power)})", self.dtype)

    def widened(self) -> LlvmFormula:
        if self.is_double:
            return self
        return LlvmFormula(DType.F64, self.width, self.native, self.declarations, self._emit)

    def convert(self, x: Lanes) -> Lanes:
        if x.dtype is self.dtype:
            return x
        return self._convert_lanes("fpext" if self.is_double else "fptrunc", x, self.dtype)

    def call(self, name: str, *operands: Lanes) -> Lanes:
        symbol = define(functions()[name], self.dtype, self.width, self.native, self.declarations)
        values = ", ".join(self._typed_text(x) for x in operands)
        return self._instruction(f"call {self._type(self.dtype)} {symbol}({values})", self.dtype)

    def beyond(self, cond: Lanes, usual: Lanes, x: Lanes, name: str) -> Lanes:
        """The value of each lane: that of the library where `cond` holds, and else the usual one.

        It is a function of its own, as an instruction of this one would be for all lanes.
        """
        type_ = self._type(self.dtype)
        symbol = f"@beyond.{name}.{suffix(self.dtype, self.width)}"
        self.declarations[symbol] = _rare_case_text(
            symbol, type_, self._type(DType.BOOL), self._any_lane(), self._call_library(name)
        )
        arguments = ", ".join(self._typed_text(value) for value in (cond, usual, x))
        return self._instruction(f"call {type_} {symbol}({arguments})", self.dtype)

    # --- inside

    def _instruction(self, text: str, dtype: DType) -> Lanes:
        return Lanes(self, self._emit(text), dtype)

    def _type(self, dtype: DType) -> str:
        return type_text(dtype, self.width)

    def _typed_text(self, x: Lanes) -> str:
        return f"{self._type(x.dtype)} {x.name}"

    def _convert_lanes(self, operation: str, x: Lanes, to: DType) -> Lanes:
        return self._instruction(f"{operation} {self._typed_text(x)} to {self._type(to)}", to)

    def _call_intrinsic(self, name: str, *operands: Lanes | Number) -> Lanes:
        """An LLVM intrinsic over floats."""
        given = [self.lift(x) for x in operands]
        result = self._type(self.dtype)
        symbol = f"@llvm.{name}.{suffix(self.dtype, self.width)}"
        self.declarations[symbol] = f"declare {result} {symbol}({', '.join(self._type(x.dtype) for x in given)})"
        return self._instruction(f"call {result} {symbol}({', '.join(map(self._typed_text, given))})", self.dtype)

    def _any_lane(self) -> str:
        """The instruction that tells whether any lane of `%cond` is set."""
        if not self.width:
            return "or i1 %cond, false"
        symbol, type_ = f"@llvm.vector.reduce.or.v{self.width}i1", self._type(DType.BOOL)
        self.declarations[symbol] = f"declare i1 {symbol}({type_})"
        return f"call i1 {symbol}({type_} %cond)"

    def _call_library(self, name: str) -> str:
        """A function over lanes that calls the C library's for each."""
        scalar = type_text(self.dtype)
        external = f"@{name}{'' if self.is_double else 'f'}"
        self.declarations[external] = f"declare {scalar} {external}({scalar}) nounwind willreturn memory(none)"
        if not self.width:
            return external
        symbol = f"@library.{name}.{suffix(self.dtype, self.width)}"
        type_ = self._type(self.dtype)
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


def _rare_case_text(symbol: str, type_: str, mask: str, some: str, rare: str) -> str:
    parameters = f"{mask} %cond, {type_} %usual, {type_} %x"
    return f"""\
define internal {type_} {symbol}({parameters}) alwaysinline nounwind willreturn memory(none) {{
  %some = {some}
  br i1 %some, label %rare, label %done
rare:
  %found = call {type_} {rare}({type_} %x)
  %picked = select {mask} %cond, {type_} %found, {type_} %usual
  br label %done
done:
  %result = phi {type_} [ %usual, %0 ], [ %picked, %rare ]
  ret {type_} %result
}}"""


class _Body:
    """The instructions of a function, each once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[str, str] = {}

    def add(self, text: str) -> str:
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%m.{len(self.lines)}"
            self.lines.append(f"  {name} = {text}")
        return name


def define(function: MathFunction, dtype: DType, width: int, native: Native, declarations: dict[str, str]) -> str:
    """The symbol of a math function for `width` lanes (0: a scalar); its definition is added to `declarations`."""
    symbol = f"@math.{function.name}.{suffix(dtype, width)}"
    if symbol in declarations:
        return symbol
    type_, body = type_text(dtype, width), _Body()
    names = [f"%x{n}" for n in range(function.arity)]
    formula = LlvmFormula(dtype, width, native, declarations, body.add)
    result = formula.value(function.formula(formula, *(Lanes(formula, x, dtype) for x in names)))
    lines = "\n".join(body.lines)
    parameters = ", ".join(f"{type_} {x}" for x in names)
    declarations[symbol] = (
        f"define internal {type_} {symbol}({parameters}) alwaysinline nounwind willreturn memory(none) "
        f"{{\n{lines}\n  ret {result.typed}\n}}"
    )
    return symbol
