"""Counters of the CPU's clock around parts of a kernel, in a variant of it that is made to be profiled.

The clock is the time-stamp counter, which all cores share and whose rate does not change (Intel's manual, volume 3,
"Time-Stamp Counter"). It is read when the loads before it are done. A function adds up its own in registers, and adds
these to the module's counters once, at its end: threads do not wait for one another on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metasched.compiler import lir
from metasched.compiler.cpu.emit.text import FunctionText

# Of each counter two numbers of 64 bits: ticks, and how many functions have added some.
COUNTERS = "metasched_counters"
# `i64 metasched_ticks()`: the clock now.
TICKS = "metasched_ticks"

_READ_CLOCK = "@llvm.x86.rdtsc"
_WAIT_FOR_LOADS = "@llvm.x86.sse2.lfence"
_DECLARATIONS = {_READ_CLOCK: f"declare i64 {_READ_CLOCK}()", _WAIT_FOR_LOADS: f"declare void {_WAIT_FOR_LOADS}()"}


class TickCounters:
    """The counters of one function."""

    def __init__(self, text: FunctionText, declarations: dict[str, str]) -> None:
        self._text = text
        self._declarations = declarations
        self._sums: dict[int, str] = {}

    @contextmanager
    def count_ticks(self, number: int) -> Iterator[None]:
        """Count the ticks of what is emitted inside."""
        if number not in self._sums:
            self._sums[number] = name = f"%counter.{number}"
            self._text.entry += [f"  {name} = alloca i64", f"  store i64 0, ptr {name}"]
        total = self._sums[number]
        begin = self._read_clock()
        yield
        end = self._read_clock()
        spent = self._text.emit_fresh(f"sub i64 {end}, {begin}")
        before = self._text.emit_fresh(f"load i64, ptr {total}")
        after = self._text.emit_fresh(f"add i64 {before}, {spent}")
        self._text.line(f"store i64 {after}, ptr {total}")

    def add_up(self) -> None:
        """Add the function's counters to the module's, at the function's end."""
        for number, total in self._sums.items():
            value = self._text.emit_fresh(f"load i64, ptr {total}")
            ticks = self._text.emit_fresh(f"getelementptr i64, ptr @{COUNTERS}, i64 {2 * number}")
            times = self._text.emit_fresh(f"getelementptr i64, ptr @{COUNTERS}, i64 {2 * number + 1}")
            self._text.line(f"atomicrmw add ptr {ticks}, i64 {value} monotonic")
            self._text.line(f"atomicrmw add ptr {times}, i64 1 monotonic")

    def _read_clock(self) -> str:
        self._declarations.update(_DECLARATIONS)
        self._text.line(f"call void {_WAIT_FOR_LOADS}()")
        return self._text.emit_fresh(f"call i64 {_READ_CLOCK}()")


def counter_globals(body: lir.LStmt) -> list[str]:
    """What a module with counters has besides others; nothing without any."""
    numbers = [n for stmt in body.walk() if (n := _counter_number(stmt)) is not None]
    if not numbers:
        return []
    return [
        f"@{COUNTERS} = global [{2 * (max(numbers) + 1)} x i64] zeroinitializer, align 64",
        f"define i64 @{TICKS}() nounwind {{\n  %now = call i64 {_READ_CLOCK}()\n  ret i64 %now\n}}",
    ]


def _counter_number(stmt: object) -> int | None:
    if isinstance(stmt, lir.Counted):
        return stmt.number
    return stmt.counter if isinstance(stmt, lir.Loop) else None
