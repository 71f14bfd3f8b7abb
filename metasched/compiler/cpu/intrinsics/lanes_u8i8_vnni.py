"""One vpdpbusd for 16 lanes, of four rows whose bytes are put side by side."""

from __future__ import annotations

from metasched.compiler.cpu.emit.byte_dots import add_dots
from metasched.compiler.cpu.emit.tensor import TensorOperands


def emit(operands: TensorOperands) -> None:
    """C += in each lane the dot product of the 4 bytes of A and of B there."""
    add_dots(operands, operands.interleaved("A"), operands.groups("B"))
