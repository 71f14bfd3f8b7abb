"""How many vector registers an array takes."""

from __future__ import annotations

from metasched.compiler.policy import vectors_for
from metasched.dtypes import DType
from metasched.target import Target


def registers_needed(size: int, lanes: int, dtype: DType, target: Target) -> int:
    """Vector registers for `size` elements handled `lanes` at a time."""
    return -(-size // lanes) * vectors_for(lanes, dtype.bits, target.vector_bits)
