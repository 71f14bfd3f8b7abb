"""Unrolling of innermost loops, up to a sampled limit."""

from __future__ import annotations

from metasched.rules.facts import Tiled

import metasched as ms

LIKELY = 0.9  # How likely the block that reads a tile is unrolled as the tile is.


@ms.rule
def unroll(sch: ms.Schedule, block: ms.BlockRV, *, limits: tuple[int, ...] = (0, 16, 64, 256)) -> ms.Skip | None:
    """Unroll a reduction's innermost loops while the product of their extents is at most a limit.

    The limit is a random variable. Accumulators stay in registers where the loops over them are unrolled. So does a
    finished tile until the block that reads it is done with it, where the loops of that are unrolled, too: whether they
    are is another random variable. A tile that is larger than all registers is not unrolled there.

    Args:
        limits: the possible limits; 0 unrolls nothing.
    """
    info = sch.describe(block)
    if not info.reduces:
        return ms.skip("it is not a reduction")
    if not info.loops:
        return ms.skip("it is in no loop")
    if ms.LoopKind.UNROLLED in info.kinds[-2:]:
        return ms.skip("its innermost loops are unrolled already")
    sch.annotate(block, "unroll_limit", sch.sample_categorical(list(limits), name="limit"))
    reader = _reader_of_tile(sch, info)
    if reader is not None:
        tile = sch.sample_categorical([1, 0], probabilities=[LIKELY, 1 - LIKELY], name="tile")
        sch.annotate(reader, "unroll_limit", sch.target.registers * tile)
    return None


def _reader_of_tile(sch: ms.Schedule, info: ms.BlockInfo) -> ms.BlockRV | None:
    """The only block that reads a tiled reduction's result, if it is in the same nest and no reduction; else None."""
    if sch.facts(sch.get_block(info.name), Tiled) is None or len(info.readers) != 1:
        return None
    block = sch.get_block(info.readers[0])
    reader = sch.describe(block)
    return None if reader.reduces or reader.loops[:1] != info.loops[:1] else block
