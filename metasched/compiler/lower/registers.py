"""What lowering needs to know of the machine, and how many vector registers an array takes."""

from __future__ import annotations

from typing import Protocol

from metasched.dtypes import DType
from metasched.target import Target

# Left for an operand. Where more do not fit, operands are read again (`metasched.compiler.lower.operand_order`).
RESERVED = 1


class Registers(Protocol):
    """How many vector registers accumulators may take."""

    @property
    def accumulators(self) -> int: ...


class VectorRegisters:
    """The vector registers of a target, and how many of them accumulators may take."""

    def __init__(self, target: Target) -> None:
        self.registers = target.registers
        self.accumulators = target.registers - RESERVED
        self.vector_bits = target.vector_bits


def registers_needed(size: int, lanes: int, dtype: DType, machine: VectorRegisters) -> int:
    """Vector registers for `size` elements handled `lanes` at a time."""
    vectors = -(-size // lanes)
    return vectors * -(-lanes * dtype.bits // machine.vector_bits)
