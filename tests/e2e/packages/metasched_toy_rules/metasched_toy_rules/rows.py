"""A rule in Python."""

from __future__ import annotations

import metasched as ms


@ms.rule
def toy_rows(sch: ms.Schedule, block: ms.BlockRV, *, chunk: int = 8) -> ms.Skip | None:
    """Run the rows of an element-wise block in parallel.

    Args:
        chunk: how many rows a thread takes at a time.
    """
    info = sch.describe(block)
    if info.reduces or not info.trivial or len(info.loops) < 2:
        return ms.skip("it is no element-wise block of two dimensions that is not scheduled yet")
    outer, _ = sch.split(sch.get_loops(block)[0], [None, chunk])
    sch.parallel(outer)
    return None
