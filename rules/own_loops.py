"""The loop that each iteration variable of a block is bound to."""

from __future__ import annotations

import metasched as ms


def own_loops(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> list[ms.LoopRV]:
    """The innermost loop of each iteration variable, in the order of these: `rfactor` and `reorder` leave loops in
    others.
    """
    around = dict(zip(info.loops, sch.get_loops(block), strict=True))
    return [around[it.loops[-1]] for it in info.iters]
