"""The block that reads a result element by element, and can be computed wherever that is."""

from __future__ import annotations

from metasched.rules.facts import Strip

import metasched as ms


def elementwise_consumer(sch: ms.Schedule, info: ms.BlockInfo) -> ms.BlockRV | None:
    """The only block that reads a block's result, if it is element-wise over the same elements; else None."""
    if info.output or len(info.readers) != 1:
        return None
    consumer = sch.get_block(info.readers[0])
    reader = sch.describe(consumer)
    free = reader.trivial or (not reader.output and sch.facts(consumer, Strip) is not None)
    return consumer if reader.elementwise and free and len(reader.iters) == len(info.spatial) else None
