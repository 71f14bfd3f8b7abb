"""What lowering needs to know of the machine, and how many vector registers an array takes."""

from __future__ import annotations

from typing import Protocol

from metasched.dtypes import DType

# Left for an operand. Where more do not fit, they take turns (`metasched.compiler.lower.operand_order`).
RESERVED = 1


class Target(Protocol):
    """The part of a target that lowering uses."""

    @property
    def registers(self) -> int: ...

    @property
    def vector_bits(self) -> int: ...


class Registers(Protocol):
    """How many of them accumulators may take."""

    @property
    def accumulators(self) -> int: ...


class Machine:
    """Registers of a target."""

    def __init__(self, target: Target) -> None:
        self.registers = target.registers
        self.accumulators = target.registers - RESERVED
        self.vector_bits = target.vector_bits


def registers_needed(size: int, lanes: int, dtype: DType, machine: Machine) -> int:
    """Vector registers for `size` elements handled `lanes` at a time."""
    vectors = -(-size // lanes)
    return vectors * -(-lanes * dtype.bits // machine.vector_bits)
