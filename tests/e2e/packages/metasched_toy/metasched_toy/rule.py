"""A rule that asks the target and the element type."""

from __future__ import annotations

import metasched as ms


@ms.rule
def toy_lanes(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Run the innermost loop of an element-wise block in vectors as wide as the target's registers."""
    info = sch.describe(block)
    if info.reduces or not info.trivial or not info.loops:
        return ms.skip("it is no element-wise block that is not scheduled yet")
    sch.vectorize(sch.get_loops(block)[-1], lanes=sch.target.lanes(info.dtype))
    return None
