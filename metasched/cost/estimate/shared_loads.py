"""What copies of unrolled code read in common, over a population: it is loaded once for all of them."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array, flat_positions
from metasched.cost.estimate.statement import StatementView, cache_per_view
from metasched.cost.estimate.statement_loops import any_of

# The share of the registers that there are for what copies read in common, where sums do not stay in any.
_FREE = 0.5


@cache_per_view
def shares_of_loads(view: StatementView) -> Array:
    """For each read, the share of its loads that is left of unrolled code around an operation, or around the loop over
    terms of a tile in registers: (reads, rows).

    Under the outermost loop where all that is read takes no more registers than are free, each element is loaded once.
    What is gathered is loaded by each copy, and so is what windows share around a tile in registers: to count it once
    ranks depthwise tiles wrong, which spill for it.
    """
    reads, tile, held = view.reads(), view.tile, view.tile.held > 0
    shares = np.ones((len(reads), view.rows), np.float32)
    if view.statement.tensor is not None:
        return shares
    alone = [np.where(held, tile.vectors[n] / tile.operations, view.loads_of_one[n]) for n in reads]
    registers = view.target.registers
    free = np.where(held, registers - tile.accumulators, _FREE * registers)
    inside = np.where(held, tile.place // view.rows, view.statement.depth)
    straight, still = np.ones(view.rows, np.bool_), np.zeros(view.rows, np.bool_)
    for loop in reversed(range(view.statement.depth)):
        straight &= (view.unrolled[loop] > 0) | (view.strips[loop] <= 1)
        if not np.count_nonzero(straight):
            break
        around = straight & (loop < inside) & (view.strips[loop] > 1)
        if not np.count_nonzero(around):
            continue
        level = np.full(view.rows, loop)
        for place, n in enumerate(reads):
            moved = any_of([still, *(view.ranges.moves(dim, loop) for dim in view.statement.accesses[n].dims)])
            shared = around & (view.steps[n] <= 1) & ~(held & moved)
            if not np.count_nonzero(shared):
                continue
            taken = view.vectors(n, level, flat_positions(level))
            left = taken / (view.strips_inside[loop] * alone[place])
            np.minimum(shares[place], left, out=shares[place], where=shared & (taken <= free))
    return shares


@cache_per_view
def share_of_tile_loads(view: StatementView) -> Array:
    """The share that is left of all loads of a register tile: (rows,)."""
    vectors = [view.tile.vectors[n] for n in view.reads()]
    if not vectors:
        return view.full(1.0)
    each = np.stack(vectors)
    share: Array = (each * shares_of_loads(view)).sum(axis=0) / each.sum(axis=0)
    return share
