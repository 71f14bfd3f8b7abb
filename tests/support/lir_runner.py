"""Compiles low-level programs written by hand and runs them on arrays that end where readable memory ends."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping

import numpy as np

from metasched.compiler import lir
from metasched.compiler.lir import Array, ArrayKind, LoopMode
from metasched.dtypes import DType
from metasched.ir.nodes import Const, Expr, Load, Scalar, Var
from metasched.runtime.compiled import CompiledKernel, KernelArgument, compile_loops
from metasched.target import Target

HOST = Target.detect(threads=1)
F32 = DType.F32
_PAGE = mmap.PAGESIZE
_PROT_NONE = 0


class Guarded:
    """Memory for arrays between two pages that nothing may touch: a stray access ends the process."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._mapped: list[tuple[int, int]] = []

    def copy(self, source: np.ndarray, *, at_end: bool = True) -> np.ndarray:
        """A copy of an array that ends at the end of its last page, or starts at the start of its first."""
        inside = -(-max(source.nbytes, 1) // _PAGE) * _PAGE
        total = inside + 2 * _PAGE
        start = self._libc.mmap(None, total, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert start not in (None, ctypes.c_void_p(-1).value)
        assert self._libc.mprotect(start + _PAGE, inside, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        self._mapped.append((start, total))
        offset = inside - source.nbytes if at_end else 0
        raw = (ctypes.c_uint8 * source.nbytes).from_address(start + _PAGE + offset)
        array: np.ndarray = np.ctypeslib.as_array(raw).view(source.dtype).reshape(source.shape)
        array[...] = source
        return array

    def close(self) -> None:
        for start, size in self._mapped:
            self._libc.munmap(start, size)
        self._mapped.clear()


def program(
    body: lir.LStmt,
    inputs: Mapping[str, tuple[DType, int]],
    outputs: Mapping[str, tuple[DType, int]],
    others: tuple[Array, ...] = (),
    scalars: tuple[Scalar, ...] = (),
) -> lir.LoopProgram:
    arrays = [Array(name, dtype, size, ArrayKind.INPUT) for name, (dtype, size) in inputs.items()]
    arrays += [Array(name, dtype, size, ArrayKind.OUTPUT) for name, (dtype, size) in outputs.items()]
    order = (*inputs, *(s.name for s in scalars), *outputs)
    return lir.LoopProgram("hand_written", order, scalars, (*arrays, *others), body)


def compiled(kernel: lir.LoopProgram, target: Target = HOST) -> CompiledKernel:
    arrays = {a.name: a for a in kernel.arrays}
    scalars = {s.name: s for s in kernel.scalars}
    parameters = tuple(
        KernelArgument(name, arrays[name].dtype, (arrays[name].size,), arrays[name].kind is ArrayKind.OUTPUT)
        if name in arrays
        else KernelArgument(name, scalars[name].dtype, None, is_output=False)
        for name in kernel.order
    )
    return CompiledKernel(compile_loops(kernel, parameters, target))


def run(
    kernel: lir.LoopProgram,
    given: Mapping[str, np.ndarray],
    scalars: Mapping[str, float] | None = None,
    target: Target = HOST,
) -> dict[str, np.ndarray]:
    """The outputs, each computed twice: arrays against the page after them, and against the page before them.

    Outputs start as 77 in every element, which is what stays where nothing is written.
    """
    results: list[dict[str, np.ndarray]] = []
    code = compiled(kernel, target)
    for at_end in (True, False):
        memory = Guarded()
        values: dict[str, np.ndarray | float] = dict(scalars or {})
        outputs = [a for a in kernel.arrays if a.kind is ArrayKind.OUTPUT]
        for array in kernel.arrays:
            if array.kind is ArrayKind.INPUT:
                assert given[array.name].size == array.size
                values[array.name] = memory.copy(given[array.name].reshape(-1), at_end=at_end)
            elif array.kind is ArrayKind.OUTPUT:
                values[array.name] = memory.copy(np.full(array.size, 77, array.dtype.numpy), at_end=at_end)
        code(*[values[name] for name in kernel.order])
        results.append({a.name: np.array(values[a.name]) for a in outputs})
        for name, before in given.items():
            np.testing.assert_array_equal(np.asarray(values[name]), before.reshape(-1), err_msg="an input was written")
        values.clear()
        memory.close()
    for name, first in results[0].items():
        np.testing.assert_array_equal(first, results[1][name])
    return results[0]


# --- short ways to write programs ---


def v(name: str, dtype: DType = DType.I64) -> Var:
    return Var(name, dtype)


def c(value: float, dtype: DType = DType.I64) -> Const:
    return Const(value, dtype)


def ld(array: str, index: Expr, dtype: DType = F32) -> Load:
    return Load(array, (index,), dtype)


def write(array: str, index: Expr, value: Expr) -> lir.Write:
    return lir.Write(array, index, value)


def loop(var: str, extent: int | Expr, body: lir.LStmt, mode: LoopMode = LoopMode.SERIAL) -> lir.Loop:
    return lir.Loop(var, extent if isinstance(extent, Expr) else c(extent), mode, body)


def unrolled(var: str, extent: int, body: lir.LStmt) -> lir.Loop:
    return loop(var, extent, body, LoopMode.UNROLLED)


def vector(var: str, extent: int | Expr, lanes: int, body: lir.LStmt, *, unroll: bool = False) -> lir.VectorLoop:
    return lir.VectorLoop(var, extent if isinstance(extent, Expr) else c(extent), lanes, unroll, body)


def block(*stmts: lir.LStmt) -> lir.Body:
    return lir.Body(stmts)


def when(cond: Expr, body: lir.LStmt) -> lir.If:
    return lir.If(cond, body)


def register(name: str, size: int, dtype: DType = F32) -> Array:
    return Array(name, dtype, size, ArrayKind.REGISTER)
