"""What it costs to start threads on a parallel region, and to have them wait for one another inside."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from metasched.calibration.cycles import CycleCounter
from metasched.compiler.cpu.codegen import LoadedCode, compile_text
from metasched.compiler.cpu.emit import runtime
from metasched.runtime.threads import state
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

_BARRIER_PHASES = 6
_TIMED_CALLS = 50
_CHAIN_LENGTH = 4000

# A chunk is a chain of additions: long enough for each thread to get one before another has run them all.
_CHAIN_TEXT = """
define void @chunk(ptr %context, i64 %phase, i64 %chunk) noinline {
entry:
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %more = icmp slt i64 %n, LENGTH
  br i1 %more, label %again, label %done
again:
  %next = add i64 %n, 1
  fence syncscope("singlethread") seq_cst
  br label %test
done:
  ret void
}
"""
# `@alone` runs one chunk as if it were a region; `@repeat` starts regions of `@chunk` one after another.
REPEAT_TEXT = """
define void @alone(ptr %body, ptr %context, i64 %phases, i64 %chunks) noinline {
  call void %body(ptr %context, i64 0, i64 0)
  ret void
}

define void @repeat(ptr %launch, i64 %calls, i64 %phases, i64 %chunks) {
entry:
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %more = icmp slt i64 %n, %calls
  br i1 %more, label %again, label %done
again:
  %next = add i64 %n, 1
  call void %launch(ptr @chunk, ptr null, i64 %phases, i64 %chunks)
  br label %test
done:
  ret void
}
"""

Context = ctypes.Array[ctypes.c_int64]


@dataclass(frozen=True)
class Regions:
    """Parallel regions of the process's thread pool."""

    counter: CycleCounter

    def load_body(self, text: str) -> LoadedCode:
        """A module with a function `body(ptr context, i64 phase, i64 chunk)`."""
        return LoadedCode(compile_text(text, self.counter.target))

    def run(self, code: LoadedCode, context: Context, chunks: int, phases: int = 1) -> None:
        """Run a region of so many chunks, each on a thread if it may have as many."""
        body = code.address("body")
        _launch()(body, ctypes.addressof(context), phases, chunks)

    def parallel_launch(self, threads: int) -> float:
        """Cycles to start so many threads on a region and to wait for their end."""
        return max(self._repeat_cycles(1, threads) - self._call_cycles(), 0.0)

    def barrier(self, threads: int) -> float:
        """Cycles that so many threads take to wait for one another inside a region."""
        longer = self._repeat_cycles(1 + _BARRIER_PHASES, threads) - self._repeat_cycles(1, threads)
        return max(longer / _BARRIER_PHASES - self._call_cycles(), 0.0)

    def _repeat_cycles(self, phases: int, threads: int) -> float:
        return self._calls_cycles(launch_address(), phases, threads)

    def _call_cycles(self) -> float:
        """Cycles of a chunk that is called outside a region."""
        return self._calls_cycles(self._repeater.address("alone"), 1, 1)

    @cached_property
    def _repeater(self) -> LoadedCode:
        return self.load_body(_CHAIN_TEXT.replace("LENGTH", str(_CHAIN_LENGTH)) + REPEAT_TEXT)

    def _calls_cycles(self, launch: int, phases: int, chunks: int) -> float:
        repeat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(self._repeater.address("repeat"))
        return self.counter.least_call_cycles(lambda: repeat(launch, _TIMED_CALLS, phases, chunks)) / _TIMED_CALLS


def launch_address() -> int:
    """The address of the function that runs a region on the process's thread pool."""
    state.load()
    return ctypes.c_int64.from_address(state.address + 8 * runtime.LAUNCH).value


def _launch() -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(launch_address())
