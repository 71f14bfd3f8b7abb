"""What may have tiles, and the block that reads a result element by element, and can be computed wherever that is."""

from __future__ import annotations

from metasched.rules.facts import Factored, Strip

import metasched as ms


def elementwise_consumer(sch: ms.Schedule, info: ms.BlockInfo) -> ms.BlockRV | None:
    """The only block that reads a block's result, if it is element-wise over the same elements; else None."""
    if info.output or len(info.readers) != 1:
        return None
    consumer = sch.get_block(info.readers[0])
    reader = sch.describe(consumer)
    free = reader.trivial or (not reader.output and sch.facts(consumer, Strip) is not None)
    return consumer if free and has_same_elements(reader, info) else None


def has_same_elements(reader: ms.BlockInfo, info: ms.BlockInfo) -> bool:
    """Whether a block is element-wise over what another computes; either may have more dimensions of size one before
    its last.
    """
    if not reader.elementwise:
        return False
    if not (reader.iters and info.spatial):
        return not reader.iters and not info.spatial
    moving = [sum(it.extent != 1 for it in iters) for iters in (reader.iters, info.spatial)]
    alike = (reader.iters[-1].extent == 1) == (info.spatial[-1].extent == 1)
    return moving[0] == moving[1] and alike


def reuses(info: ms.BlockInfo) -> bool:
    """Whether a reduction reads elements for several of its results, so that tiles gain something."""
    spatial = {it.name for it in info.spatial if it.extent != 1}
    return any(spatial - read.iters for read in info.reads)


def obstacle_to_tiles(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> str | None:
    """Why a block is no reduction that tiles may be made of: it is none, or is scheduled; None where it is one."""
    if not info.reduces or not info.initialises:
        return "it is not a reduction"
    if sch.facts(block, Factored) is not None:
        return "its reduction is factored"
    if not info.trivial:
        return "it is scheduled already"
    return None
