"""get_loops: the loops around a block."""

from __future__ import annotations

from metasched.ir import query
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, LoopName
from metasched.schedule.primitive import primitive


@primitive(pure=True)
def get_loops(ctx: Context, block: BlockName) -> tuple[LoopName, ...]:
    """The loops around a block, outermost first.

    Args:
        block: any block.
    """
    ctx.block("get_loops", block)
    return tuple(loop.var for loop in query.loops_above(ctx.func, block))
