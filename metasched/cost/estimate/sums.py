"""Which sums lowering can keep in registers."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array, Mask, Ranges
from metasched.cost.program.nest import Statement


def steps_whole_vectors(statement: Statement, ranges: Ranges, lanes: Array) -> Mask:
    """(loops, rows) whether the sums of one iteration of a loop are whole vectors of `lanes` from those of the next: no
    vector straddles two registers then (`metasched.compiler.lower.storage`).
    """
    found: Mask = np.ones(ranges.extents.shape, np.bool_)
    vector = statement.vector
    if vector is None:
        return found
    for dim in statement.store.dims:
        for loop in sorted(dim.loops - {vector}) if dim.uses(vector) else ():
            step = np.abs(ranges.step(dim, loop))
            found[loop] = (ranges.extents[loop] <= 1) | (np.mod(step, lanes) == 0)
    return found
