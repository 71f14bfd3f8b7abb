"""How a side is timed: samples of about a millisecond, over a block. Nothing but the standard library is needed."""

from __future__ import annotations

import time
from collections.abc import Callable

DROPPED_S = 0.15  # at the start of a block: another process's idle threads may still spin
BLOCK_S = 0.30
SAMPLE_S = 1e-3


def block(call: Callable[[], object]) -> list[float]:
    """Seconds per call: samples of about a millisecond or one call, over a block, the first part dropped."""
    start = time.perf_counter()
    calls = 0
    while time.perf_counter() - start < DROPPED_S:
        call()
        calls += 1
    each = max(1, round(SAMPLE_S / (DROPPED_S / calls)))
    samples: list[float] = []
    start = time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - start < BLOCK_S:
        begin = time.perf_counter()
        for _ in range(each):
            call()
        samples.append((time.perf_counter() - begin) / each)
    return samples
