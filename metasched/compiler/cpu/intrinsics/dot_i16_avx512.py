"""One vpmaddwd and an addition for 16 lanes."""

from __future__ import annotations

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.dtypes import DType
from metasched.ir.nodes import BinOp


def emit(operands: TensorOperands) -> None:
    """C += the dot products of the pair of A with each pair of B."""
    a, b = operands.repeated("A"), operands.groups("B")
    products = operands.call("llvm.x86.avx512.pmaddw.d.512", DType.I32, a, b)
    operands.store("C", operands.binary(BinOp.ADD, operands.load("C"), products))
