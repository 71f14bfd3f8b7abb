"""How a side is timed: samples of about a millisecond, over a block. Nothing but the standard library is needed."""

from __future__ import annotations

import time
from collections.abc import Callable

DROPPED_S = 0.15  # at the start of a block: another process's idle threads may still spin
BLOCK_S = 0.30
SAMPLE_S = 1e-3
_TICK_S = 1e-7  # the shortest plausible time of a run: below it, the clock did not tick


def block(call: Callable[[], object]) -> list[float]:
    """Seconds per call from Python: samples of about a millisecond or one call; the first part is dropped."""

    def run(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin

    return block_of_runs(run)


def block_of_runs(run: Callable[[int], float]) -> list[float]:
    """The same where the loop of calls is not Python's: `run(n)` calls n times, and returns the seconds of all."""
    each = 1
    start = time.perf_counter()
    while time.perf_counter() - start < DROPPED_S:
        each = max(1, round(SAMPLE_S * each / max(run(each), _TICK_S)))
    samples: list[float] = []
    start = time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - start < BLOCK_S:
        samples.append(run(each) / each)
    return samples
