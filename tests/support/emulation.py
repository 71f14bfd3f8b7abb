"""Kernels with instructions that this CPU lacks, run here: what would be the instruction calls a model of it.

The models are written from Intel's Architecture Instruction Set Extensions reference, chapters on VDPBF16PS, VPDPBUSD
and AMX.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from metasched.compiler.cpu.codegen import LoadedCode, compile_text
from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.ir.nodes import Func
from metasched.runtime import threads
from metasched.runtime.addresses import data_pointer
from metasched.target import Target

# Each of 16 lanes: the odd product, then the even one, each added with one rounding.
_DOT_BF16 = """
define internal <16 x float> @emulated.dpbf16ps(<16 x float> %c, <32 x i16> %a, <32 x i16> %b) alwaysinline {
  %ai = bitcast <32 x i16> %a to <16 x i32>
  %bi = bitcast <32 x i16> %b to <16 x i32>
  %ao = and <16 x i32> %ai, splat (i32 -65536)
  %bo = and <16 x i32> %bi, splat (i32 -65536)
  %ae = shl <16 x i32> %ai, splat (i32 16)
  %be = shl <16 x i32> %bi, splat (i32 16)
  %aof = bitcast <16 x i32> %ao to <16 x float>
  %bof = bitcast <16 x i32> %bo to <16 x float>
  %aef = bitcast <16 x i32> %ae to <16 x float>
  %bef = bitcast <16 x i32> %be to <16 x float>
  %odd = fmul <16 x float> %aof, %bof
  %even = fmul <16 x float> %aef, %bef
  %first = fadd <16 x float> %c, %odd
  %second = fadd <16 x float> %first, %even
  ret <16 x float> %second
}
"""


def _dot_bytes(lanes: int) -> str:
    """Each of some lanes: four products of unsigned and signed bytes, added without saturation."""
    v, lines, total = f"<{lanes} x i32>", [], "%c"
    for n in range(4):
        lines += [
            f"  %ua{n} = lshr {v} %a, splat (i32 {8 * n})",
            f"  %ub{n} = and {v} %ua{n}, splat (i32 255)",
            f"  %sa{n} = shl {v} %b, splat (i32 {24 - 8 * n})",
            f"  %sb{n} = ashr {v} %sa{n}, splat (i32 24)",
            f"  %p{n} = mul {v} %ub{n}, %sb{n}",
            f"  %t{n} = add {v} {total}, %p{n}",
        ]
        total = f"%t{n}"
    head = f"define internal {v} @emulated.vpdpbusd.{32 * lanes}({v} %c, {v} %a, {v} %b) alwaysinline {{"
    return "\n".join(["", head, *lines, f"  ret {v} {total}", "}", ""])


class TileModel:
    """Eight tile registers. Anything that a CPU would fault on is an error; so is a read of what was not written."""

    def __init__(self) -> None:
        self.tiles: list[np.ndarray[Any, Any] | None] | None = None
        self.done: dict[str, int] = {}
        self.errors: list[str] = []

    def ldtilecfg(self, at: int) -> None:
        config = bytes((ctypes.c_uint8 * 64).from_address(at))
        expected = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])
        self._require(config == expected, f"another configuration: {config!r}")
        self._require(self.tiles is None, "it is configured already")
        self.tiles = [None] * 8

    def tilerelease(self) -> None:
        self._require(self.tiles is not None, "nothing to release")
        self.tiles = None

    def tilezero(self, n: int) -> None:
        self._put(n, np.zeros(1024, np.uint8))

    def tileloadd64(self, n: int, at: int, stride: int) -> None:
        rows = [np.ctypeslib.as_array((ctypes.c_uint8 * 64).from_address(at + stride * r)) for r in range(16)]
        self._put(n, np.concatenate(rows))

    def tilestored64(self, n: int, at: int, stride: int) -> None:
        data = self._get(n, np.dtype(np.uint8))
        for r in range(16):
            ctypes.memmove(at + stride * r, data[64 * r : 64 * (r + 1)].tobytes(), 64)

    def tdpbf16ps(self, c: int, a: int, b: int) -> None:
        self._multiply(c, a, b, np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32))

    def tdpbusd(self, c: int, a: int, b: int) -> None:
        self._multiply(c, a, b, np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.int32))

    def tdpbssd(self, c: int, a: int, b: int) -> None:
        self._multiply(c, a, b, np.dtype(np.int8), np.dtype(np.int8), np.dtype(np.int32))

    def _multiply(self, c: int, a: int, b: int, left: Any, right: Any, out: Any) -> None:
        self._require(len({a, b, c}) == 3, "an operand twice")
        group = 4 // left.itemsize
        rows = self._get(a, left).reshape(16, 16, group).astype(out)
        columns = self._get(b, right).reshape(16, 16, group).astype(out)
        with np.errstate(over="ignore"):
            product = np.einsum("ikp,kjp->ij", rows, columns, dtype=out)
            total = self._get(c, out).reshape(16, 16) + product
        self._put(c, total.view(np.uint8).reshape(-1))

    def _put(self, n: int, data: np.ndarray[Any, Any]) -> None:
        if self.tiles is None:
            self._require(False, "tiles are not configured")
        else:
            self.tiles[n] = data.copy()

    def _get(self, n: int, dtype: Any) -> np.ndarray[Any, Any]:
        found = None if self.tiles is None else self.tiles[n]
        self._require(found is not None, f"tile {n} is read before it is written")
        data = np.zeros(1024, np.uint8) if found is None else found
        return data.view(dtype)

    def _require(self, holds: bool, what: str) -> None:
        # An exception does not pass through machine code.
        if not holds:
            self.errors.append(what)


_OPERANDS: dict[str, list[Any]] = {
    "ldtilecfg": [ctypes.c_void_p],
    "tilerelease": [],
    "tilezero": [ctypes.c_uint8],
    "tileloadd64": [ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64],
    "tilestored64": [ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64],
    **{name: [ctypes.c_uint8] * 3 for name in ("tdpbf16ps", "tdpbusd", "tdpbssd")},
}


def run(func: Func, target: Target, *arrays: np.ndarray[Any, Any]) -> TileModel:
    """Compile for `target` and run on this machine, on one thread; outputs are the last arrays."""
    model = TileModel()
    # A table of its own: the process's would remember that tile registers were given.
    table = (ctypes.c_int64 * runtime.SLOTS)()
    threads.state.load()
    ctypes.memmove(table, threads.state.address, ctypes.sizeof(table))
    # Without Numba's number of threads, which counts once its layer is launched.
    table[runtime.LIMIT], table[runtime.THREAD_COUNT], table[runtime.TILES] = 1, 0, 0
    text = emit(lower(func, target), target).text
    text = re.sub(r"declare .*@llvm\.x86\.avx512bf16\.dpbf16ps\.512\(.*\)", _DOT_BF16, text)
    text = text.replace("@llvm.x86.avx512bf16.dpbf16ps.512", "@emulated.dpbf16ps").replace("bfloat", "i16")
    for lanes in (8, 16):
        text = re.sub(rf"declare .*@llvm\.x86\.avx512\.vpdpbusd\.{32 * lanes}\(.*\)", _dot_bytes(lanes), text)
    text = text.replace("@llvm.x86.avx512.vpdpbusd", "@emulated.vpdpbusd")
    text = text.replace("@syscall", "@emulated_syscall")
    kept: list[Any] = [_add_symbol("emulated_syscall", ctypes.c_int64, [ctypes.c_int64] * 3, lambda *_: 0)]
    for name, types in _OPERANDS.items():
        text = text.replace(f"@llvm.x86.{name}(", f"@emulated_{name}(")
        kept.append(_add_symbol(f"emulated_{name}", None, types, _counted(model, name)))
    here = Target.detect(threads=1)
    code = LoadedCode(compile_text(text.replace(" immarg", ""), here))
    ctypes.c_void_p.from_address(code.address(runtime.STATE)).value = ctypes.addressof(table)
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * (len(arrays) + 1))(code.address("metasched_kernel"))
    assert entry(*(data_pointer(a) for a in arrays), None) == 0
    assert not model.errors, model.errors[0]
    assert model.tiles is None, "tiles are not released"
    return model


def _counted(model: TileModel, name: str) -> Any:
    act = getattr(model, name)

    def call(*args: int) -> None:
        model.done[name] = model.done.get(name, 0) + 1
        act(*args)

    return call


def _add_symbol(name: str, result: Any, types: list[Any], function: Any) -> Any:
    callback = ctypes.CFUNCTYPE(result, *types)(function)
    llvm.add_symbol(name, ctypes.cast(callback, ctypes.c_void_p).value)
    return callback
