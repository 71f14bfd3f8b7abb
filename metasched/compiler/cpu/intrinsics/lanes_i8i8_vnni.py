"""One vpdpbusd for 16 lanes of A + 128, and one, shared by all uses of the same B, for the correction 128 . B."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.compiler.cpu.emit.types import constant
from metasched.dtypes import DType
from metasched.ir.nodes import BinOp

_DOT = "llvm.x86.avx512.vpdpbusd.512"


def emit(operands: TensorOperands) -> None:
    """C += in each lane (A + 128) . B - 128 . B; flipping the sign bit of a byte adds 128 to it."""
    a, b = operands.interleaved("A"), operands.groups("B")
    shift = operands.dot_argument(constant(-128, b.dtype, b.width))
    raised, b = operands.dot_argument(operands.flipped(a, 0x80)), operands.dot_argument(b)
    too_much = operands.call(_DOT, DType.I32, constant(0, DType.I32, operands.lanes), shift, b)
    less = operands.binary(BinOp.SUB, operands.load("C"), too_much)
    operands.store("C", operands.call(_DOT, DType.I32, less, raised, b))
