"""A parallel kernel with per-thread scratch, for the processes that the thread tests start."""

from __future__ import annotations

import numpy as np

from metasched.compiler.lir import Array, ArrayKind, Body, Loop, LoopMode, LoopProgram, VectorLoop, Write
from metasched.dtypes import DType
from metasched.ir.nodes import Const, Load, Var
from metasched.runtime.compiled import CompiledKernel, KernelArgument, compile_loops
from metasched.runtime.kernel import Kernel
from metasched.target import Target

ROWS, COLUMNS = 37, 50
F32 = DType.F32


def make_kernel(threads: int = 2) -> Kernel:
    """`Y[r, j] = 2 * X[r, j] + 1`, rows in parallel, by way of a scratch row that each thread has for itself."""
    at = Var("r") * COLUMNS + Var("j")
    there = Var("r") * COLUMNS + Var("k")
    row = Body(
        (
            VectorLoop("j", Const(COLUMNS), 16, False, Write("t", Var("j"), Load("X", (at,), F32) * 2.0)),
            VectorLoop("k", Const(COLUMNS), 16, False, Write("Y", there, Load("t", (Var("k"),), F32) + 1.0)),
        )
    )
    size = ROWS * COLUMNS
    arrays = (
        Array("X", F32, size, ArrayKind.INPUT),
        Array("Y", F32, size, ArrayKind.OUTPUT),
        Array("t", F32, COLUMNS, ArrayKind.THREAD),
    )
    program = LoopProgram("double", ("X", "Y"), (), arrays, Loop("r", Const(ROWS), LoopMode.PARALLEL, row))
    shape = (ROWS, COLUMNS)
    parameters = (KernelArgument("X", F32, shape, is_output=False), KernelArgument("Y", F32, shape, is_output=True))
    target = Target.detect(threads=threads)
    return Kernel(CompiledKernel(compile_loops(program, parameters, target)))


def inputs(count: int) -> np.ndarray:
    return np.arange(count * ROWS * COLUMNS, dtype=np.float32).reshape(count, ROWS, COLUMNS)


def expected(x: np.ndarray) -> np.ndarray:
    return 2 * x + 1
