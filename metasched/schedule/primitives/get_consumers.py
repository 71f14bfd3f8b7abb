"""get_consumers: the blocks that read what a block writes."""

from __future__ import annotations

from metasched.ir import query
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import primitive


@primitive(pure=True, in_batches=unchanged)
def get_consumers(ctx: Context, block: BlockName) -> tuple[BlockName, ...]:
    """The blocks that read what a block writes, in program order.

    Args:
        block: any block.
    """
    ctx.block("get_consumers", block)
    return tuple(b.name for b in query.consumers(ctx.func, block))
