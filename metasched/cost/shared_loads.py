"""Loads that straight code makes once for several uses, such as those of windows that overlap, over a population.

Code generation keeps the vectors that it has loaded of a buffer for later uses in the same straight code, the latest
few of them (`metasched.compiler.policy.REMEMBERED_PER_REGISTER`): what is used later is loaded again. Of 49 tiles of
depthwise convolutions, 34 have as many loads in LLVM's code as this says, but for a tenth, and all but for a factor of
1.42.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from metasched.compiler.policy import REMEMBERED_PER_REGISTER
from metasched.cost.footprint import Array
from metasched.cost.nest import Statement
from metasched.cost.statement import StatementView, cache_per_view
from metasched.cost.statement_loops import Flags


def shared_load_shares(view: StatementView) -> Array:
    """Of the loads of each access that a register tile makes, or an instance where sums are not in registers, the share
    that straight code around it makes: (accesses, rows)."""
    shares: Array = _shares(view)[0]
    return shares


def distinct_load_shares(view: StatementView) -> Array:
    """The same share of those that load something for the first time: (accesses, rows)."""
    shares: Array = _shares(view)[1]
    return shares


@cache_per_view
def _shares(view: StatementView) -> Array:
    """Both shares of each access: (2, accesses, rows)."""
    found = np.ones((2, len(view.statement.accesses), view.rows), np.float32)
    if view.statement.tensor is None:
        around = _straight_loops(view)
        for n in view.reads():
            shared = {loop for loop in around if _may_share(view.statement, n, loop)}
            if shared and not view.statement.accesses[n].is_register:
                found[:, n] = _shares_of(view, n, around, shared)
    return found


def _straight_loops(view: StatementView) -> dict[int, Flags]:
    """The loops around the tile, from the innermost one on, that are straight code with it, and for which rows."""
    held, level = view.tile.held > 0, view.tile.place // view.rows
    found = {}
    straight = np.ones(view.rows, np.bool_)
    for loop in reversed(range(view.depth)):
        steps = _steps(view, loop)
        straight = straight & ((view.unrolled[loop] > 0) | (steps <= 1))
        if not np.count_nonzero(straight):
            break
        outside = straight & (~held | (loop < level)) & (steps > 1)
        if np.count_nonzero(outside):
            found[loop] = outside
    return found


def _steps(view: StatementView, loop: int) -> Array:
    steps: Array = view.vector.steps if loop == view.statement.vector else view.extents[loop]
    return steps


def _may_share(statement: Statement, n: int, loop: int) -> bool:
    """Whether iterations of a loop may load the same: one that does not move an access, or moves it along a dimension
    that loops over elements and over terms move as well."""
    moved = [dim for dim in statement.accesses[n].dims if dim.uses(loop)]
    if not moved or loop == statement.vector:
        return not moved
    return any(len({statement.loops[each].reduces for each in dim.loops}) == 2 for dim in moved)


def _shares_of(
    view: StatementView, n: int, around: Mapping[int, Flags], may_share: Collection[int]
) -> tuple[Array, Array]:
    """Going outwards from the tile, a loop of straight code loads again what its iterations have in common where they
    load more between two uses than is kept."""
    most = REMEMBERED_PER_REGISTER * view.target.registers
    held = view.tile.held > 0
    # Where sums are in memory, what registers keep is spilled for them. An element that fills a register takes none as
    # part of an operation, and one where it is kept: of grouped convolutions most are spilled.
    keeps = (held | (not view.statement.reduces)) & (view.steps[n] > 0)
    touched = np.minimum(view.footprints[n].elements, view.places(n))
    kept = np.where(held, view.tile.vectors[n], view.loads_of_one[n])
    share = distinct = view.full(1.0)
    for loop, outside in around.items():
        times = steps = _steps(view, loop)
        if loop in may_share:
            is_moved = loop != view.statement.vector
            times = np.minimum(touched[loop] / touched[loop + 1], steps) if is_moved else view.full(1.0)
            distinct = np.where(outside, distinct * times / steps, distinct)
            shared = outside & keeps & (kept * _iterations_between(view, n, loop) <= most)
            share = np.where(shared, share * times / steps, share)
        kept = np.where(outside, kept * times, kept)
    return share, distinct


def _iterations_between(view: StatementView, n: int, loop: int) -> Array:
    """Iterations of a loop until one uses what another has loaded: several where it moves by less than the loops inside
    of it, as those over the terms of a strided convolution do."""
    between = view.full(1.0)
    for dim in view.statement.accesses[n].dims:
        if dim.uses(loop):
            span = view.ranges.reach(dim)[loop + 1] + 1.0
            between = between * np.maximum(span / view.ranges.values(dim)[loop + 1], 1.0)
    return between
