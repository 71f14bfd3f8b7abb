"""One vpdpbusd for 16 lanes, of four rows whose bytes are put side by side."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.dtypes import DType


def emit(operands: TensorOperands) -> None:
    """C += in each lane the dot product of the 4 bytes of A and of B there."""
    a, b = operands.dot_argument(operands.interleaved("A")), operands.dot_argument(operands.groups("B"))
    updated = operands.call("llvm.x86.avx512.vpdpbusd.512", DType.I32, operands.load("C"), a, b)
    operands.store("C", updated)
