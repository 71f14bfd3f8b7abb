"""What one thread does of a statement: threads take neighbouring iterations of parallel loops, the outermost first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.cost.estimate.footprint import Array, Ranges
from metasched.cost.program.nest import Statement, StatementAccess


def ranges_of_a_thread(whole: Ranges, statement: Statement, parallel: Sequence[int], threads: int) -> Ranges:
    """The ranges of the loops of one thread, whose part is the largest; `whole` are those of all threads."""
    if not parallel or threads < 2:
        return whole
    left, extents = np.full(whole.rows, threads, np.float32), {}
    for loop in parallel:
        parts = np.minimum(whole.extents[loop], left)
        extents[loop] = np.ceil(whole.extents[loop] / parts)
        left = np.ceil(left / parts)
    return Ranges(statement, whole.sizes, whole.rows, extents)


def part_of_a_thread(access: StatementAccess, own: Ranges, whole: Ranges, parallel: Sequence[int]) -> Array:
    """The share that one thread, with its `own` ranges, touches of what an access touches. (rows,)"""
    part: Array = np.ones(whole.rows, np.float32)
    if access.alloc is not None and parallel and access.alloc > parallel[0]:
        return part  # Each thread has one of its own.
    for dim, extent in zip(access.dims, access.shape, strict=True):
        if any(dim.uses(loop) for loop in parallel):
            most = whole.sizes[extent]
            mine, all_of_it = (np.minimum(ranges.reach(dim)[0] + 1.0, most) for ranges in (own, whole))
            part = part * (mine / all_of_it)
    return part
