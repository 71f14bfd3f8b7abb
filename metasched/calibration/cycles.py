"""Cycles of a core, counted by a chain of additions: each waits one cycle for the one before, on every CPU."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from functools import partial

import numpy as np

from metasched.calibration.machine_code import counted_loop, load_loop
from metasched.support.data_classes import dataclass
from metasched.support.stopwatch import seconds_of
from metasched.target import Target

_CHAIN_LENGTH = 32
_CHAIN_TURNS = 10_000  # of the chain, which takes about 0.1 ms
_SAMPLE_S = 5e-4
_SAMPLES = 9
_PAGE = 4096


@dataclass(frozen=True)
class _Sample:
    """Seconds of a call, and of a cycle beside it."""

    seconds: float
    cycle_s: float

    @property
    def cycles(self) -> float:
        return self.seconds / self.cycle_s


class CycleCounter:
    """Times code in cycles: between two runs of a chain whose cycles are known, since the clock changes as it runs.

    Where other work shares the machine, it takes of both; a median over samples is what is returned.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._chain = load_loop(_chain_text(), target, (ctypes.c_void_p, ctypes.c_int64))
        self._result = np.zeros(1, np.int64)

    def call_cycles(self, call: Callable[[], object], samples: int = _SAMPLES) -> float:
        """Cycles of a call, which should take a fraction of a millisecond or longer."""
        return statistics.median(sample.cycles for sample in (self._sample(call) for _ in range(samples)))

    def least_call_cycles(self, call: Callable[[], object], samples: int = _SAMPLES) -> float:
        """The fewest cycles of a call: what it takes while nobody else uses what the cores share."""
        found = [self._sample(call) for _ in range(samples)]
        # By the shortest cycle, too: one that was interrupted would make the call beside it seem short.
        return min(sample.seconds for sample in found) / min(sample.cycle_s for sample in found)

    def iteration_cycles(self, loop: Callable[[int], object], samples: int = _SAMPLES) -> float:
        """Cycles of each of the iterations of `loop(iterations)`."""
        count = _iterations_of_sample(loop)
        return self.call_cycles(lambda: loop(count), samples) / count

    def clock_hz(self) -> float:
        """Cycles a second, as far as that is constant."""
        return 1 / statistics.median(self._cycle_s() for _ in range(_SAMPLES))

    def _sample(self, call: Callable[[], object]) -> _Sample:
        before, seconds, after = self._cycle_s(), seconds_of(call), self._cycle_s()
        return _Sample(seconds, min(before, after))

    def _cycle_s(self) -> float:
        return seconds_of(lambda: self._chain(self._result.ctypes.data, _CHAIN_TURNS)) / (_CHAIN_TURNS * _CHAIN_LENGTH)


class Scratch:
    """Memory for loops: `bytes` that are ones of float32, from the start of a page on at `address`."""

    def __init__(self, size: int) -> None:
        self._array = np.ones((size + _PAGE) // 4, np.float32)
        self.address = self._array.ctypes.data + -self._array.ctypes.data % _PAGE


def _iterations_of_sample(loop: Callable[[int], object]) -> int:
    """How many iterations take about as long as a sample should."""
    count, seconds = 16, 0.0
    while seconds < _SAMPLE_S / 4:
        count *= 4
        seconds = seconds_of(partial(loop, count))
    return max(1, int(count * _SAMPLE_S / seconds))


def _chain_text() -> str:
    """Additions and exclusive ors in turn, so that none of them can be left out."""
    body = [f"  %a.0 = phi i64 [ 1, %entry ], [ %a.{_CHAIN_LENGTH}, %body ]"]
    body += [f"  %a.{k + 1} = {('add', 'xor')[k % 2]} i64 %a.{k}, %n" for k in range(_CHAIN_LENGTH)]
    return counted_loop(["ptr %result"], body, done=[f"  store volatile i64 %a.{_CHAIN_LENGTH}, ptr %result"])
