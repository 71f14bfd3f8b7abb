"""Instructions on the bits of floats, and on numbers as they are, for conversions that are written as arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import SSAValue, constant, lane_list, type_text
from metasched.dtypes import DType


class FloatBits:
    """Emits them into a function, each the same in every lane."""

    def __init__(self, text: FunctionText) -> None:
        self._text = text

    def emit(self, text: str, dtype: DType, like: SSAValue) -> SSAValue:
        """The result of an instruction, in as many lanes as `like` has."""
        return SSAValue(self._text.emit_pure(text), dtype, like.width)

    def apply_number(self, operation: str, a: SSAValue, number: float) -> SSAValue:
        """The result of an operation with a number as the right operand."""
        return self.emit(f"{operation} {a.typed}, {constant(number, a.dtype, a.width).text}", a.dtype, a)

    def apply(self, operation: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(f"{operation} {a.typed}, {b.text}", a.dtype, a)

    def compare_number(self, kind: str, a: SSAValue, number: float) -> SSAValue:
        return self.emit(f"{kind} {a.typed}, {constant(number, a.dtype, a.width).text}", DType.BOOL, a)

    def is_nan(self, value: SSAValue) -> SSAValue:
        return self.compare_number("fcmp uno", value, 0.0)

    def select(self, cond: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(f"select {cond.typed}, {a.typed}, {b.typed}", a.dtype, a)

    def select_number(self, cond: SSAValue, number: float, b: SSAValue) -> SSAValue:
        """A number in the lanes where a condition holds, else `b`."""
        return self.select(cond, constant(number, b.dtype, b.width), b)

    def convert(self, operation: str, a: SSAValue, to: DType) -> SSAValue:
        return self.emit(f"{operation} {a.typed} to {type_text(to, a.width)}", to, a)

    def bits(self, value: SSAValue) -> SSAValue:
        """An f32's bits."""
        return self.convert("bitcast", value, DType.I32)

    def half_to_f32(self, bits: SSAValue) -> SSAValue:
        """The f32 value of an f16 of some bits, by an instruction that not every target has."""
        type_ = f"<{bits.width} x half>" if bits.width else "half"
        half = self._text.emit_pure(f"bitcast {bits.typed} to {type_}")
        return self.emit(f"fpext {type_} {half} to {type_text(DType.F32, bits.width)}", DType.F32, bits)

    def bf16_bits(self, value: SSAValue) -> SSAValue:
        """The bits of the bf16 nearest to each lane, by an instruction that not every target has."""
        lanes = 1 << (value.width - 1).bit_length()  # LLVM puts together other numbers in memory
        whole = self._pick(value, [*range(value.width), *["poison"] * (lanes - value.width)])
        half = self._text.emit_pure(f"fptrunc {whole.typed} to <{lanes} x bfloat>")
        bits = self.emit(f"bitcast <{lanes} x bfloat> {half} to {type_text(DType.I16, lanes)}", DType.I16, whole)
        return self._pick(bits, range(value.width))

    def _pick(self, value: SSAValue, lanes: Iterable[int | str]) -> SSAValue:
        """Some lanes of a vector, in an order."""
        picks = list(lanes)
        if picks == list(range(value.width)):
            return value
        mask = f"<{len(picks)} x i32> <{lane_list(picks)}>"
        text = self._text.emit_pure(f"shufflevector {value.typed}, {value.type} poison, {mask}")
        return SSAValue(text, value.dtype, len(picks))

    def bits_to_f32(self, bits: SSAValue) -> SSAValue:
        """The f32 of some bits."""
        return self.convert("bitcast", bits, DType.F32)
