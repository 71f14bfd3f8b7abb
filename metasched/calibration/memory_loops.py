"""Bytes a cycle from each level of memory, for one thread and for several at once, and how much more lines take that
are not next to one another.

A parallel region of the thread pool that kernels use runs the loops, a chunk a thread.
"""

from __future__ import annotations

import ctypes

from metasched.calibration.cycles import CycleCounter, Scratch
from metasched.calibration.regions import Context, Regions
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

_UNROLL = 8
# A read of so many bytes at least, in as many passes as that takes.
_LEAST_READ_BYTES = 2 << 20
_MIB = 1 << 20
# The most memory that is allocated: more than the last cache of most machines.
_MOST_ALLOCATED_BYTES = 512 * _MIB
_SAMPLES = 7
# From a line to the next of another page.
_STRIDE = 4096 + CACHE_LINE
# Pages are gone through so often, each time so many bytes further.
_SHIFTS, _SHIFT = 16, 256


@dataclass(frozen=True)
class MemoryLoops:
    """Loops over `scratch`, of `memory_bytes(target)` bytes, in threads of `regions`."""

    counter: CycleCounter
    regions: Regions
    scratch: Scratch

    def l2_bytes(self) -> float:
        """Bytes that one thread reads from its second cache in a cycle."""
        return self._read(self.counter.target.l2 // 2, 1)

    def l3_bytes(self, threads: int) -> float:
        """Bytes that each of so many threads reads from the last cache in a cycle, all at once."""
        target = self.counter.target
        return self._read(max(2 * target.l2, min(target.l3 // (2 * threads), 4 * target.l2)), threads)

    def memory_bytes(self, threads: int) -> float:
        """Bytes that each of so many threads reads from memory in a cycle, all at once."""
        return self._read(memory_bytes(self.counter.target.l3) // threads, threads, samples=3)

    def scatter(self) -> float:
        """How many times as long a line takes that is in another page than the one before, from the last cache."""
        span = min(8 * self.counter.target.l2, memory_bytes(self.counter.target.l3))
        pages = (span - _SHIFTS * _SHIFT) // _STRIDE // _UNROLL * _UNROLL
        apart = self._cycles(_read_lines(_STRIDE), self._context(pages * CACHE_LINE, _SHIFTS, _SHIFT))
        lines = span // (_UNROLL * CACHE_LINE) * _UNROLL
        together = self._cycles(_read_lines(CACHE_LINE), self._context(lines * CACHE_LINE, 1))
        return max(apart / (pages * _SHIFTS) / (together / lines), 1.0)

    def _read(self, size: int, threads: int, samples: int = _SAMPLES) -> float:
        step = _UNROLL * CACHE_LINE
        size = min(size, memory_bytes(self.counter.target.l3) // threads) // step * step
        passes = max(1, _LEAST_READ_BYTES // size)
        context = self._context(size, passes)
        return size * passes / self._cycles(_read_lines(CACHE_LINE), context, threads, samples)

    def _cycles(self, text: str, context: Context, threads: int = 1, samples: int = _SAMPLES) -> float:
        body = self.regions.load_body(text)
        self.regions.run(body, context, threads)
        return self.counter.least_call_cycles(lambda: self.regions.run(body, context, threads), samples)

    def _context(self, size: int, passes: int, shift: int = 0) -> Context:
        return (ctypes.c_int64 * 4)(self.scratch.address, size, passes, shift)


def memory_bytes(last_cache: int) -> int:
    """Bytes that the loops read from memory: more than the last cache holds, within reason."""
    return min(2 * last_cache, _MOST_ALLOCATED_BYTES)


def _read_lines(stride: int) -> str:
    """A body that reads a line of each `stride` bytes, several times over.

    Its context is the address of the first chunk's data, the bytes of lines that each chunk reads, how many times, and
    how many bytes further each time.
    """
    reads: list[str] = []
    for n in range(_UNROLL):
        reads += [
            f"  %p.{n} = getelementptr i8, ptr %at, i64 {n * stride}",
            f"  %v.{n} = load volatile <{CACHE_LINE // 8} x i64>, ptr %p.{n}, align {CACHE_LINE}",
        ]
    return _READ_TEXT.format(
        reads="\n".join(reads),
        step=_UNROLL * CACHE_LINE,
        stride=_UNROLL * stride,
    )


_READ_TEXT = """\
define void @body(ptr %context, i64 %phase, i64 %chunk) {{
entry:
  %base = load ptr, ptr %context
  %size.at = getelementptr i64, ptr %context, i64 1
  %size = load i64, ptr %size.at
  %passes.at = getelementptr i64, ptr %context, i64 2
  %passes = load i64, ptr %passes.at
  %shift.at = getelementptr i64, ptr %context, i64 3
  %shift = load i64, ptr %shift.at
  %before = mul i64 %size, %chunk
  %first = getelementptr i8, ptr %base, i64 %before
  br label %outer
outer:
  %pass = phi i64 [ 0, %entry ], [ %pass.next, %again ]
  %further = mul i64 %pass, %shift
  %start = getelementptr i8, ptr %first, i64 %further
  br label %inner
inner:
  %i = phi i64 [ 0, %outer ], [ %next, %inner ]
  %at = phi ptr [ %start, %outer ], [ %at.next, %inner ]
{reads}
  %at.next = getelementptr i8, ptr %at, i64 {stride}
  %next = add i64 %i, {step}
  %more = icmp slt i64 %next, %size
  br i1 %more, label %inner, label %again, !llvm.loop !0
again:
  %pass.next = add i64 %pass, 1
  %pass.more = icmp slt i64 %pass.next, %passes
  br i1 %pass.more, label %outer, label %done
done:
  ret void
}}
!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.unroll.disable"}}
"""
