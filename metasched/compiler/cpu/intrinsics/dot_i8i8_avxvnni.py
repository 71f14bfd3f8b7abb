"""One vpdpbusd for 8 lanes of A + 128, and one, shared by all rows of A, for the correction 128 . B."""

from __future__ import annotations

from metasched.compiler.cpu.emit.byte_dots import add_signed_dots
from metasched.compiler.cpu.emit.tensor import TensorOperands


def emit(operands: TensorOperands) -> None:
    """C += the dot products of the 4 bytes of A with each group of B."""
    add_signed_dots(operands, operands.repeated("A"), operands.groups("B"))
