"""Constant arguments that a timed call finds where a network leaves them, and not where the call before did.

Between two calls of a kernel, the other kernels of a network go through their own weights, so that its own are no
longer in the caches near a core. Here one call after another takes another copy of the constant arguments (and of what
was computed of them ahead), and all copies together are more than those caches hold. The other arguments stay as they
are: in a network, too, a kernel reads what the one before has just written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from metasched.measure.checking.check import Guarded
from metasched.measure.workers.load import BoundKernel
from metasched.target import CACHE_LINE

# The most copies: tiny constants make no difference.
_MOST_COPIES = 512


def rotate_constants(bound: BoundKernel, held: Mapping[int, Guarded], enough: int) -> Callable[[int], float]:
    """`bound.run` with a copy of `held`, by position of the argument, for one call after another.

    There are as many copies as take `enough` bytes together; none where the constants do by themselves.
    """
    sizes = {slot: -(-guarded.bytes.size // CACHE_LINE) * CACHE_LINE for slot, guarded in held.items()}
    each = sum(sizes.values())
    count = min(-(-enough // each), _MOST_COPIES) if each else 1
    if count <= 1:
        return bound.run
    memory = np.empty(each * (count - 1) + CACHE_LINE, np.uint8)
    start = -int(memory.ctypes.data) % CACHE_LINE
    base = int(memory.ctypes.data)
    others: list[dict[int, int]] = []
    for _ in range(count - 1):
        others.append({})
        for slot, guarded in held.items():
            memory[start : start + guarded.bytes.size] = guarded.bytes
            others[-1][slot] = base + start
            start += sizes[slot]
    run = bound.rotate_arguments(others)

    def run_rotated(calls: int) -> float:
        assert memory is not None  # it lives as long as what is called on it
        return run(calls)

    return run_rotated
