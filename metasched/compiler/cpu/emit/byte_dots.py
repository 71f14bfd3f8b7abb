"""vpdpbusd, the sum of four products of bytes in each lane, in registers of any size and of signed bytes, too."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.compiler.cpu.emit.types import SSAValue, constant
from metasched.dtypes import DType
from metasched.ir.nodes import BinOp


def add_dots(operands: TensorOperands, unsigned: SSAValue, signed: SSAValue) -> None:
    """C += in each lane the dot product of 4 unsigned and 4 signed bytes."""
    unsigned, signed = operands.dot_argument(unsigned), operands.dot_argument(signed)
    operands.store("C", _dots(operands, operands.load("C"), unsigned, signed))


def add_signed_dots(operands: TensorOperands, a: SSAValue, b: SSAValue) -> None:
    """C += in each lane (a + 128) . b - 128 . b of signed bytes.

    Flipping the sign bit of a byte adds 128 to it. What is taken off is computed once for all uses of the same `b`.
    """
    shift = operands.dot_argument(constant(-128, b.dtype, b.width))
    raised, b = operands.dot_argument(operands.flipped(a, 0x80)), operands.dot_argument(b)
    too_much = _dots(operands, constant(0, DType.I32, operands.lanes), shift, b)
    less = operands.binary(BinOp.SUB, operands.load("C"), too_much)
    operands.store("C", _dots(operands, less, raised, b))


def _dots(operands: TensorOperands, sums: SSAValue, unsigned: SSAValue, signed: SSAValue) -> SSAValue:
    # LLVM has one name for both encodings, and takes the one that the target has.
    symbol = f"llvm.x86.avx512.vpdpbusd.{operands.intrinsic.vector_bits}"
    return operands.call(symbol, DType.I32, sums, unsigned, signed)
