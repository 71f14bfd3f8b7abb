"""One vpdpbusd for 16 lanes, whose unsigned bytes are those of the vectors."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.dtypes import DType


def emit(operands: TensorOperands) -> None:
    """C += the dot products of the 4 bytes of A with each group of B."""
    a, b = operands.repeated("A"), operands.groups("B")
    a, b = operands.dot_argument(a), operands.dot_argument(b)
    updated = operands.call("llvm.x86.avx512.vpdpbusd.512", DType.I32, operands.load("C"), b, a)
    operands.store("C", updated)
