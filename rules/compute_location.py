"""Sampled compute locations of producers that are still at the root."""

from __future__ import annotations

from metasched.rules.facts import Factored, Placed, Strip, Tiled

import metasched as ms


@ms.rule
def compute_location(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute a producer at a sampled location: at the root, inlined, or under a loop of its reader.

    Untiled reductions move too: for example one over a row to the loop that uses the row.
    """
    info = sch.describe(block)
    if info.output or not info.readers:
        return ms.skip("it writes an output")
    if sch.facts(block, Placed) is not None:
        return ms.skip("it was placed when it was made")
    if sch.facts(block, Tiled) is not None:
        return ms.skip("it is tiled; its consumer may move to it")
    moves = sch.facts(block, Factored) is not None or (info.conditional and sch.facts(block, Strip) is not None)
    if not info.trivial and not moves:
        return ms.skip("it is scheduled already")
    sch.compute_at(block, sch.sample_compute_location(block))
    return None
