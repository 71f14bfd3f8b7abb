"""Regions on the process's pool of threads, with bodies of Python and of machine code."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from metasched.compiler.cpu.codegen import LoadedCode, compile_text
from metasched.compiler.cpu.emit import runtime
from metasched.runtime.threads import state
from metasched.target import Target

LINE = 8  # integers of a cache line
X86 = platform.machine().lower() in {"x86_64", "amd64"}
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_LAUNCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

# Every chunk has a number in `cells`, of its own cache line. In phase p it must find all of them at the number of the
# phase before, without any atomic access: the barrier alone has it seen. It reads from one half and writes the other.
# Chunks take different times, up to about a microsecond, and count themselves.
_DEPENDENT = f"""
define void @dependent(ptr %context, i64 %phase, i64 %chunk) {{
entry:
  %cells = load ptr, ptr %context
  %chunks.at = getelementptr i64, ptr %context, i64 1
  %chunks = load i64, ptr %chunks.at
  %first.at = getelementptr i64, ptr %context, i64 2
  %first = load i64, ptr %first.at
  %wrong.at = getelementptr i64, ptr %context, i64 3
  %runs.at = getelementptr i64, ptr %context, i64 4
  %expected = add i64 %first, %phase
  %mixed.phase = mul i64 %expected, 7919
  %mixed.chunk = mul i64 %chunk, 104729
  %mixed = xor i64 %mixed.phase, %mixed.chunk
  %high = lshr i64 %mixed, 3
  %delay = and i64 %high, 511
  br label %wait
wait:
  %tick = phi i64 [ 0, %entry ], [ %tick.next, %wait ]
  %ignored = load volatile i64, ptr %cells
  %tick.next = add i64 %tick, 1
  %waiting = icmp ult i64 %tick, %delay
  br i1 %waiting, label %wait, label %start
start:
  %runs = atomicrmw add ptr %runs.at, i64 1 monotonic
  %odd = and i64 %expected, 1
  %size = mul i64 %chunks, {LINE}
  %from.at = mul i64 %odd, %size
  %from = getelementptr i64, ptr %cells, i64 %from.at
  %even = xor i64 %odd, 1
  %to.at = mul i64 %even, %size
  %to = getelementptr i64, ptr %cells, i64 %to.at
  br label %test
test:
  %n = phi i64 [ 0, %start ], [ %next, %counted ]
  %more = icmp slt i64 %n, %chunks
  br i1 %more, label %look, label %done
look:
  %there = mul i64 %n, {LINE}
  %cell = getelementptr i64, ptr %from, i64 %there
  %found = load i64, ptr %cell
  %right = icmp eq i64 %found, %expected
  br i1 %right, label %counted, label %wrong
wrong:
  %before = atomicrmw add ptr %wrong.at, i64 1 monotonic
  br label %counted
counted:
  %next = add i64 %n, 1
  br label %test
done:
  %own.at = mul i64 %chunk, {LINE}
  %own = getelementptr i64, ptr %to, i64 %own.at
  %following = add i64 %expected, 1
  store i64 %following, ptr %own
  ret void
}}

define i64 @regions(ptr %launch, ptr %context, i64 %count, i64 %phases, i64 %chunks) {{
entry:
  %first.at = getelementptr i64, ptr %context, i64 2
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %next, %run ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %run, label %done
run:
  call void %launch(ptr @dependent, ptr %context, i64 %phases, i64 %chunks)
  %first = load i64, ptr %first.at
  %following = add i64 %first, %phases
  store i64 %following, ptr %first.at
  %next = add i64 %n, 1
  br label %test
done:
  %wrong.at = getelementptr i64, ptr %context, i64 3
  %wrong = load i64, ptr %wrong.at
  ret i64 %wrong
}}
"""
# Each chunk notes the floating-point modes of its thread.
_MODES = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define void @modes(ptr %context, i64 %phase, i64 %chunk) {
  %at = getelementptr i32, ptr %context, i64 %chunk
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  ret void
}

define void @set_modes(ptr %modes) {
  call void @llvm.x86.sse.ldmxcsr(ptr %modes)
  ret void
}
"""


@cache
def code() -> LoadedCode:
    return LoadedCode(compile_text(_DEPENDENT + (_MODES if X86 else ""), Target.detect(threads=1)))


def launcher() -> int:
    """The address of the pool's function that runs a region."""
    state.load()
    return int(ctypes.c_int64.from_address(state.address + 8 * runtime.LAUNCH).value)


def launch(body: int, context: int | None, phases: int, chunks: int) -> None:
    _LAUNCH(launcher())(body, context, phases, chunks)


def region(body: Callable[[int, int], Any], phases: int, chunks: int) -> None:
    """Run a region whose body is of Python: `body(phase, chunk)`."""
    errors: list[BaseException] = []

    @_BODY
    def called(_context: int, phase: int, chunk: int) -> None:
        try:
            body(phase, chunk)
        except BaseException as error:  # noqa: BLE001 -- raised below
            errors.append(error)

    launch(ctypes.cast(called, ctypes.c_void_p).value or 0, None, phases, chunks)
    if errors:
        raise errors[0]


def dependent_regions(count: int, phases: int, chunks: int) -> int:
    """Run regions whose every phase reads what all chunks of the one before have stored; how often it found another."""
    cells = np.zeros(2 * chunks * LINE, np.int64)
    context = (ctypes.c_int64 * 5)(cells.ctypes.data, chunks, 0, 0, 0)
    loaded = code()  # several threads may have made one each: this one's lives as long as it is called
    regions = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)(loaded.address("regions"))
    wrong = regions(launcher(), ctypes.addressof(context), count, phases, chunks)
    last = cells.reshape(2, chunks, LINE)[count * phases % 2, :, 0]
    np.testing.assert_array_equal(last, count * phases)
    assert context[4] == count * phases * chunks, "chunks that ran"
    return int(wrong)
