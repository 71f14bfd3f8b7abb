"""Reads that are transposed in registers, over a population (`metasched.compiler.cpu.emit.transposed_loads`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.compiler.policy import SPREAD, TRANSPOSED_BYTES
from metasched.cost.footprint import Array, Footprint, Ranges, flat_step
from metasched.cost.nest import Statement


def transposed_runs(statement: Statement, marks: Sequence[Footprint], ranges: Ranges, unrolled: Array) -> list[Array]:
    """For each access, the neighbours that iterations of an unrolled loop read side by side and lanes far apart, which
    are loaded at once; 0 where there are none: (rows,)."""
    if statement.tensor is not None or statement.reduces:
        return [np.zeros(ranges.rows, np.float32) for _ in marks]
    return [_run(statement, n, mark, ranges, unrolled) for n, mark in enumerate(marks)]


def _run(statement: Statement, n: int, mark: Footprint, ranges: Ranges, unrolled: Array) -> Array:
    access, vector, rows = statement.accesses[n], statement.vector, ranges.rows
    if n == 0 or vector is None or any(n in gate.reads for gate in statement.gates):
        return np.zeros(rows, np.float32)
    run = TRANSPOSED_BYTES // access.element_bytes
    beside, straight = np.zeros(rows, np.bool_), np.ones(rows, np.bool_)
    for loop in reversed(range(statement.depth)):
        straight &= unrolled[loop] > 0
        if loop != vector:
            beside |= straight & (flat_step(access, mark, ranges, loop) == 1) & (ranges.extents[loop] >= run)
    lanes = statement.loops[vector].lanes
    whole = np.ones(rows, np.bool_) if lanes is None else (ranges.sizes[lanes] + np.zeros(rows)) % run == 0
    apart = np.abs(flat_step(access, mark, ranges, vector)) > SPREAD
    return np.where(beside & whole & apart, np.float32(run), np.float32(0.0))
