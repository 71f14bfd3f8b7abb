"""How many vector registers an array takes."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.target import Target

# Left for an operand. Where more do not fit, operands are read again (`metasched.compiler.lower.operand_order`).
RESERVED = 1


def registers_needed(size: int, lanes: int, dtype: DType, target: Target) -> int:
    """Vector registers for `size` elements handled `lanes` at a time."""
    vectors = -(-size // lanes)
    return vectors * -(-lanes * dtype.bits // target.vector_bits)
