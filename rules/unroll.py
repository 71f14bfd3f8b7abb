"""Unrolling of innermost loops, up to a sampled limit."""

from __future__ import annotations

import metasched as ms


@ms.rule
def unroll(sch: ms.Schedule, block: ms.BlockRV, *, limits: tuple[int, ...] = (0, 16, 64, 256)) -> ms.Skip | None:
    """Unroll a reduction's innermost loops while the product of their extents is at most a limit.

    The limit is a random variable. Accumulators stay in registers where the loops over them are unrolled.

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
    return None
