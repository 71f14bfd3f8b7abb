"""Vectors that are loaded from what was stored just before them, as parts of two stores: a core hands on what one store
holds, and a load of more than that waits until the first cache has both.
"""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array, flat_step
from metasched.cost.estimate.statement import StatementView
from metasched.cost.estimate.statement_loops import Flags


def waits_for_stores(view: StatementView) -> Array:
    """Cycles that a statement waits for the stores of an earlier one in the same iteration of the loops around both, of
    which it reads windows along the lanes. There is one wait for each such iteration, for its last stores.
    """
    cycles = view.full(0.0)
    for read, level in view.handed_on:
        waits = np.where(_reads_windows(view, read, level), view.core.split_load, 0.0)
        cycles = cycles + waits * view.outer[level]
    return cycles


def _reads_windows(view: StatementView, read: int, level: int) -> Flags:
    """Whether a read's vectors begin within others, as a loop inside `level` moves them by less than a vector."""
    statement = view.statement
    if statement.vector is None or statement.vector < level:
        return np.zeros(view.rows, np.bool_)
    moved = np.zeros(view.rows, np.bool_)
    for loop in range(level, statement.depth):
        if loop != statement.vector:
            step = np.abs(flat_step(statement.accesses[read], view.footprints[read], view.ranges, loop))
            moved |= view.iterates[loop] & (step > 0) & (step < view.vector.lanes)
    found: Flags = moved & (view.steps[read] == 1)
    return found
