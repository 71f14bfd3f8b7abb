"""The time of each part of a kernel, by counters in a variant of it that is compiled for that.

The kernel itself stays as it is: it is called in turns with the variant, which shows what the counters cost.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from metasched.compiler.cpu.emit.counters import COUNTERS, TICKS
from metasched.compiler.lower import CountedPart, lower_counted
from metasched.errors import KernelError
from metasched.ir.nodes import Func
from metasched.runtime.callable_kernel import CallableKernel
from metasched.runtime.compiled import CompiledKernel, compile_loops, parameters_of
from metasched.support.data_classes import dataclass
from metasched.support.stopwatch import seconds_of

_WARM_UP_CALLS = 3
# The clock's rate is known to this share of the time that it is compared over.
_LEAST_CLOCK_COMPARISON_S = 0.02
# Ticks that reading a counter twice takes, roughly, and the share of a call that all of that may be.
_READ_TICKS = 100.0
_MOST_COUNTER_SHARE = 0.02
# A machine that ticks so often a second, until its own rate is measured.
_ASSUMED_CLOCK_HZ = 2e9


@dataclass(frozen=True)
class PartTime:
    """What a part took.

    Attributes:
        part: which one.
        seconds: the median over the runs: from its beginning to its end, and where it is in a loop that runs on
            threads, the sum over them.
        threads: how many threads had some of it, in the median; all, where its loop began more than once.
    """

    part: CountedPart
    seconds: float
    threads: int


@dataclass(frozen=True)
class PartTimes:
    """Parts in the order in which they begin, those inside another behind it, and calls as a whole.

    `seconds` is the median of calls of the kernel itself, as Python calls it. `least_s` is the shortest of them, and
    `least_counted_s` that of calls of the variant with counters, in turns with them. `runs` is how many there were of
    each.
    """

    parts: tuple[PartTime, ...]
    seconds: float
    least_s: float
    least_counted_s: float
    runs: int

    @property
    def cost(self) -> float:
        """What the counters add to a call, as a share of it; noise may make it negative."""
        return self.least_counted_s / self.least_s - 1


def part_times(kernel: CallableKernel, func: Func, inputs: tuple[Any, ...], runs: int) -> PartTimes:
    """Time the parts of a kernel on these inputs. `func` is the scheduled program that it was compiled from.

    Raises KernelError for inputs that the kernel cannot take, for no run at all, and for a machine that is not x86.
    """
    if "sse2" not in kernel.target.features:
        raise KernelError("parts of kernels are timed by the clock of x86 CPUs, and this kernel is for another one")
    if runs < 1:
        raise KernelError(f"`runs` is {runs}; a median is over one call at least")
    results = kernel(*inputs)
    call = _median([seconds_of(lambda: kernel(*inputs, out=results)) for _ in range(_WARM_UP_CALLS)])
    program, parts = lower_counted(
        func, kernel.target, int(max(call * _ASSUMED_CLOCK_HZ * _MOST_COUNTER_SHARE / _READ_TICKS, 1))
    )
    compiled = CompiledKernel(compile_loops(program, parameters_of(func), kernel.target))
    variant = CallableKernel(compiled)
    counters = (ctypes.c_int64 * (2 * len(parts))).from_address(compiled.symbol(COUNTERS))
    ticks = ctypes.CFUNCTYPE(ctypes.c_int64)(compiled.symbol(TICKS))
    clock = _TickRate(ticks)
    wholes, counted, found = [], [], []
    for _ in range(_WARM_UP_CALLS + runs):
        wholes.append(seconds_of(lambda: kernel(*inputs, out=results)))
        ctypes.memset(counters, 0, ctypes.sizeof(counters))
        counted.append(seconds_of(lambda: variant(*inputs, out=results)))
        found.append(np.array(counters, np.int64).reshape(-1, 2))
    spent = np.median(found[_WARM_UP_CALLS:], axis=0)
    rate = clock.hz()
    times = (
        PartTime(part, float(n_ticks / rate), min(int(threads), kernel.target.threads))
        for part, (n_ticks, threads) in zip(parts, spent, strict=True)
    )
    return PartTimes(
        tuple(times),
        _median(wholes[_WARM_UP_CALLS:]),
        min(wholes[_WARM_UP_CALLS:]),
        min(counted[_WARM_UP_CALLS:]),
        runs,
    )


class _TickRate:
    """How often a second the clock ticks, by another clock, from when this is made."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._began = time.perf_counter(), ticks()

    def hz(self) -> float:
        seconds, before = self._began
        left = _LEAST_CLOCK_COMPARISON_S - (time.perf_counter() - seconds)
        time.sleep(max(left, 0.0))
        now, ticks = time.perf_counter(), self._ticks()
        return (ticks - before) / (now - seconds)


def _median(seconds: list[float]) -> float:
    return float(np.median(seconds))
