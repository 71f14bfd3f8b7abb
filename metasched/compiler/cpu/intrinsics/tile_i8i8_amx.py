"""One tdpbssd."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands


def emit(operands: TensorOperands) -> None:
    """C += A . B, in tile registers."""
    operands.tiles("llvm.x86.tdpbssd", "C", "A", "B")
