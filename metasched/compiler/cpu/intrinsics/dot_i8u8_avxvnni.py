"""One vpdpbusd for 8 lanes, whose unsigned bytes are those of the vectors."""

from __future__ import annotations

from metasched.compiler.cpu.emit.byte_dots import add_dots
from metasched.compiler.cpu.emit.tensor import TensorOperands


def emit(operands: TensorOperands) -> None:
    """C += the dot products of the 4 bytes of A with each group of B."""
    add_dots(operands, operands.groups("B"), operands.repeated("A"))
