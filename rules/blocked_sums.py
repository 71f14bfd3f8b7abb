"""Long sums in blocks, for accuracy."""

from __future__ import annotations

import metasched as ms


@ms.rule
def blocked_sums(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Sum long reductions of f32 in blocks of terms, and then the blocks.

    A sequential sum of 10^6 terms loses the last three or four digits, one in blocks of 512 only one, in the same time.
    """
    info = sch.describe(block)
    if not info.reduces:
        return ms.skip("it is not a reduction")
    if not info.sum_block:
        return ms.skip("it is no sum of more than 4096 terms of f32")
    sch.annotate(block, "blocked_sum", info.sum_block)
    return None
