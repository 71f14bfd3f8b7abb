"""One vpdpbusd for 16 lanes of A + 128, and one, shared by all uses of the same B, for the correction 128 . B."""

from __future__ import annotations

from metasched.compiler.cpu.emit.byte_dots import add_signed_dots
from metasched.compiler.cpu.emit.tensor import TensorOperands


def emit(operands: TensorOperands) -> None:
    """C += in each lane the dot product of the 4 bytes of A and of B there."""
    add_signed_dots(operands, operands.interleaved("A"), operands.groups("B"))
