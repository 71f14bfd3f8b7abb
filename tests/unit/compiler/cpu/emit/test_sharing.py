"""How threads share a parallel loop: each iteration once, who begins late is helped, short loops are left whole."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from metasched.compiler import lir
from metasched.compiler.cpu.codegen import LoadedCode, compile_text
from metasched.compiler.cpu.emit.sharing import COUNT_BYTES, is_long, share_text
from metasched.compiler.lir import LoopMode
from metasched.ir.nodes import Binary, BinOp
from metasched.target import Target
from tests.support.lir_runner import F32, c, ld, loop, v, vector, write

LONG, SHORT = 1 << 20, 16
# Each iteration counts itself, and each call of a phase is noted in the last cell.
_PHASE = """
define internal void @phase.{name}(ptr %cells, i64 %lo, i64 %hi) noinline {{
entry:
  %calls = load i64, ptr %cells
  %calls.next = add i64 %calls, 1
  store i64 %calls.next, ptr %cells
  br label %test
test:
  %n = phi i64 [ %lo, %entry ], [ %next, %count ]
  %more = icmp slt i64 %n, %hi
  br i1 %more, label %count, label %done
count:
  %next = add i64 %n, 1
  %cell = getelementptr i64, ptr %cells, i64 %next
  %before = load i64, ptr %cell
  %after = add i64 %before, 1
  store i64 %after, ptr %cell
  br label %test
done:
  ret void
}}
define void @run.{name}(ptr %cells, i64 %extent, i64 %chunks, i64 %chunk, ptr %counts) {{
  call void @share.{name}(ptr %cells, i64 %extent, i64 %chunks, i64 %chunk, ptr %counts)
  ret void
}}
"""


def copying(rows: int, columns: int = 64) -> lir.Loop:
    body = vector("j", columns, 16, write("B", v("i") * columns + v("j"), ld("A", v("i") * columns + v("j"))))
    return lir.Loop("i", c(rows), LoopMode.PARALLEL, body)


@cache
def code() -> LoadedCode:
    loops = {"long": copying(LONG), "short": copying(SHORT)}
    text = "\n".join(_PHASE.format(name=n) + share_text(n, ["ptr %cells"], of) for n, of in loops.items())
    return LoadedCode(compile_text(text, Target.detect(threads=1)))


class Loop:
    """A loop of so many iterations in so many chunks; a list of how often each was run."""

    def __init__(self, name: str, extent: int, chunks: int) -> None:
        self.cells = np.zeros(extent + 1, np.int64)
        self._counts = np.zeros(chunks * COUNT_BYTES // 8, np.int64)
        self._sizes = extent, chunks
        types = [ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
        self._function = ctypes.CFUNCTYPE(None, *types)(code().address(f"run.{name}"))

    def run(self, chunk: int) -> None:
        self._function(self.cells.ctypes.data, *self._sizes, chunk, self._counts.ctypes.data)

    @property
    def runs(self) -> np.ndarray:
        return self.cells[1:]

    @property
    def calls(self) -> int:
        return int(self.cells[0])


@pytest.mark.parametrize("name", ["long", "short"])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 8, 9, 40])
def test_every_iteration_runs_once(name: str, chunks: int) -> None:
    for extent in [*range(chunks, chunks + 70), 1000, 4097]:
        some = Loop(name, extent, chunks)
        for chunk in reversed(range(chunks)):
            some.run(chunk)
        np.testing.assert_array_equal(some.runs, 1, err_msg=f"{extent} iterations")


def test_who_is_ready_runs_what_others_have_not_begun() -> None:
    alone = Loop("long", 640, 2)
    alone.run(0)
    np.testing.assert_array_equal(alone.runs, 1)
    calls = alone.calls
    alone.run(1)
    assert alone.calls == calls, "nothing is left for the other"
    many = Loop("long", 640, 64)
    many.run(3)
    np.testing.assert_array_equal(np.flatnonzero(many.runs), np.arange(30, 110), "its own and the seven after it")


def test_pieces_get_smaller() -> None:
    whole, few = Loop("long", 3200, 2), Loop("long", 4, 2)
    whole.run(0)
    assert whole.calls == 2 * 7
    few.run(0)
    assert few.calls == 2 * 2, "no call without an iteration"


def test_a_short_loop_is_not_divided() -> None:
    some = Loop("short", SHORT, 2)
    some.run(1)
    np.testing.assert_array_equal(np.flatnonzero(some.runs), np.arange(8, 16))
    assert some.calls == 1


def test_loops_are_long_by_what_they_load_and_store() -> None:
    """64 elements are four vectors, loaded and stored."""
    assert is_long(copying(1 << 12))
    assert not is_long(copying(1 << 11))
    assert not is_long(copying(1 << 12, columns=16))
    elements = loop("j", 64, write("B", v("j"), ld("A", v("j"))))
    assert is_long(lir.Loop("i", c(1 << 9), LoopMode.PARALLEL, elements))


def test_sizes_that_are_not_known_are_long_and_minima_bound_them() -> None:
    inner = write("B", v("i"), c(0.0, F32))
    assert is_long(lir.Loop("i", v("n"), LoopMode.PARALLEL, inner))
    bounded = Binary(BinOp.MIN, c(64), v("n"))
    assert not is_long(lir.Loop("i", bounded, LoopMode.PARALLEL, inner))
