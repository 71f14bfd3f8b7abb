"""Features of the buffers a statement touches, over a population."""

from __future__ import annotations

import numpy as np

from metasched.cost.footprint import LINE, Array, Footprint, Levels, at_level
from metasched.cost.machine import CORE
from metasched.cost.nest import Access
from metasched.cost.statement import CACHES, Columns, View

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


def buffers(view: View) -> Columns:
    """The first `BUFFERS` accesses, the store first and the reads in program order; zeros where there are fewer."""
    out: Columns = {}
    for n in range(BUFFERS):
        found = _buffer(view, n) if n < len(view.marks) else {name: view.full(0.0) for name in BUFFER_NAMES}
        out.update({f"b{n}.{name}": value for name, value in found.items()})
    return out


def _buffer(view: View, n: int) -> Columns:
    access, mark = view.statement.accesses[n], view.marks[n]
    l1, l2 = view.fits[0], view.fits[1]
    ways = (view.machine.l1 // CORE.l1_ways, view.machine.l2 // CORE.l2_ways)
    values = (
        mark.elements[0] * access.element_bytes,
        mark.lines[0],
        view.iterations / mark.elements[0],
        _reuse_distance(view, access),
        *(view.traffic[cache][n] for cache in range(len(CACHES))),
        view.vectors(n, view.tile.level, view.tile.place),
        at_level(mark.run, l1) * access.element_bytes,
        np.minimum(view.steps[n], LINE),
        conflicts(mark, l1, ways[0], CORE.l1_ways),
        conflicts(mark, l2, ways[1], CORE.l2_ways),
    )
    return dict(zip(BUFFER_NAMES, values, strict=True))


def _reuse_distance(view: View, access: Access) -> Array:
    """Bytes the statement touches between two uses of the same element: inside the innermost loop that does not
    move the access; everything where there is no such loop."""
    distance: Array = view.working_set[0]
    for loop in range(view.depth):
        still = view.extents[loop] > 1
        for dim in access.dims:
            if dim.uses(loop):
                still = still & ~view.ranges.moves(dim, loop)
        distance = np.where(still, view.working_set[loop + 1], distance)
    return distance


def conflicts(mark: Footprint, level: Levels, way_bytes: int, ways: int) -> Array:
    """Lines of a tile over the lines of the sets it can use; above 1, its rows evict one another.

    Rows a distance `s` apart fall into `way_bytes / gcd(s, way_bytes)` places: a power-of-two row uses few of them.
    """
    lines = at_level(mark.lines, level)
    step = mark.row_bytes.astype(np.int64)
    power = np.minimum(step & -step, way_bytes).astype(np.float32)
    places = np.where(power > 0, way_bytes / np.maximum(power, 1.0), way_bytes / LINE)
    run_lines = np.ceil(at_level(mark.run, level) / LINE)
    usable = np.minimum(places * run_lines, way_bytes / LINE) * ways
    ratio: Array = lines / np.maximum(usable, 1.0)
    return ratio
