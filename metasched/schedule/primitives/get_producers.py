"""get_producers: the blocks that write what a block reads."""

from __future__ import annotations

from metasched.ir import query
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import primitive


@primitive(pure=True, in_batches=unchanged)
def get_producers(ctx: Context, block: BlockName) -> tuple[BlockName, ...]:
    """The blocks that write what a block reads, in program order.

    Args:
        block: any block.
    """
    ctx.block("get_producers", block)
    return tuple(b.name for b in query.producers(ctx.func, block))
