"""One vdpbf16ps for 16 lanes."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.dtypes import DType


def emit(operands: TensorOperands) -> None:
    """C += the dot products of the pair of A with each pair of B."""
    a, b = operands.repeated("A"), operands.groups("B")
    updated = operands.call("llvm.x86.avx512bf16.dpbf16ps.512", DType.F32, operands.load("C"), a, b)
    operands.store("C", updated)
