"""Where producers that are still on their own are computed."""

from __future__ import annotations

import metasched as ms


@ms.rule
def compute_location(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute a producer at a sampled place: on its own, inlined, or under a loop of its reader."""
    info = sch.describe(block)
    if info.output or not info.readers:
        return ms.skip("it writes an output")
    if info.reduces:
        return ms.skip("it is a reduction")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    sch.compute_at(block, sch.sample_compute_location(block))
    return None
