"""One vpdpbusd for 16 lanes.

Its bytes are passed as words of 32 bits: LLVM 20 takes nothing else; LLVM 22 declares it on bytes, and takes both.
"""

from __future__ import annotations

from metasched.backend.emit.tensor import TensorOperands
from metasched.ir.dtypes import DType

LANES, GROUP = 16, 4


def emit(operands: TensorOperands) -> None:
    """C += the dot products of the 4 bytes of A with each group of B."""
    a, b = operands.repeated("A", LANES, GROUP), operands.groups("B", LANES, GROUP)
    a, b = operands.words(a), operands.words(b)
    updated = operands.call("llvm.x86.avx512.vpdpbusd.512", DType.I32, operands.load("C", LANES), a, b)
    operands.store("C", updated)
