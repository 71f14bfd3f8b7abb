"""What has tiles, and the block that reads a result element by element, and can be computed wherever that is."""

from __future__ import annotations

from collections.abc import Iterable

from metasched.rules.facts import Strip

import metasched as ms


def elementwise_consumer(sch: ms.Schedule, info: ms.BlockInfo) -> ms.BlockRV | None:
    """The only block that reads a block's result, if it is element-wise over the same elements; else None."""
    if info.output or len(info.readers) != 1:
        return None
    consumer = sch.get_block(info.readers[0])
    reader = sch.describe(consumer)
    free = reader.trivial or (not reader.output and sch.facts(consumer, Strip) is not None)
    return consumer if reader.elementwise and free and _moving(reader.iters) == _moving(info.spatial) else None


def _moving(iters: Iterable[ms.IterInfo]) -> int:
    """How many variables have more than one value."""
    return sum(it.extent != 1 for it in iters)


def reuses(info: ms.BlockInfo) -> bool:
    """Whether a reduction reads elements for several of its results, so that tiles gain something."""
    spatial = {it.name for it in info.spatial if it.extent != 1}
    return any(spatial - read.iters for read in info.reads)
