"""Features of the buffers a statement touches, over a population."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.caches import CACHES
from metasched.cost.estimate.footprint import Array, Levels, take_level
from metasched.cost.estimate.statement import StatementView
from metasched.cost.feature import Columns
from metasched.cost.program.nest import StatementAccess
from metasched.target import CACHE_LINE

BUFFERS = 4
BUFFER_NAMES = (
    "bytes",
    "lines",
    "reuse",
    "reuse_distance",
    "l1_traffic",
    "l2_traffic",
    "l3_traffic",
    "tile_vectors",
    "run_bytes",
    "lane_step",
    "l1_conflicts",
    "l2_conflicts",
)


def buffers(view: StatementView) -> Columns:
    """The first `BUFFERS` accesses, the store first and the reads in program order; zeros where there are fewer."""
    out: Columns = {}
    for n in range(BUFFERS):
        found = _buffer(view, n) if n < len(view.footprints) else {name: view.full(0.0) for name in BUFFER_NAMES}
        out.update({f"b{n}.{name}": value for name, value in found.items()})
    return out


def _buffer(view: StatementView, n: int) -> Columns:
    access, footprint = view.statement.accesses[n], view.footprints[n]
    l1, l2 = view.fits[0], view.fits[1]
    pressure = view.pressures[n]
    values = (
        footprint.elements[0] * access.element_bytes,
        footprint.lines[0],
        view.iterations / footprint.elements[0],
        _reuse_distance(view, access),
        *(view.traffic[cache][n] for cache in range(len(CACHES))),
        view.tile.vectors[n],
        take_level(footprint.run, l1) * access.element_bytes,
        np.minimum(view.steps[n], CACHE_LINE),
        conflicts(pressure, l1, view.target.l1),
        conflicts(pressure, l2, view.target.l2),
    )
    return dict(zip(BUFFER_NAMES, values, strict=True))


def _reuse_distance(view: StatementView, access: StatementAccess) -> Array:
    """Bytes the statement touches between two uses of the same element: inside the innermost loop that does not
    move the access; everything where there is no such loop."""
    distance: Array = view.working_set[0]
    for loop in range(view.depth):
        still = view.iterates[loop]
        for dim in access.dims:
            if dim.uses(loop):
                still = still & ~view.ranges.moves(dim, loop)
        distance = np.where(still, view.working_set[loop + 1], distance)
    return distance


def conflicts(pressure: Array, level: Levels, cache_bytes: int) -> Array:
    """What a tile takes up in a cache, with what it leaves unusable; above 1, its rows evict one another.

    `pressure` is (levels, rows): the lines under each level over the share of the sets that they can be in.
    """
    ratio: Array = take_level(pressure, level) * (CACHE_LINE / cache_bytes)
    return ratio
