"""get_block: a block by name."""

from __future__ import annotations

from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, BlockText
from metasched.schedule.primitive import primitive


@primitive(pure=True, in_batches=unchanged)
def get_block(ctx: Context, name: BlockText) -> BlockName:
    """The block of that name.

    Args:
        name: a stage's label, or its buffer where it has none; or a name that a primitive generated.

    Requires:
        The program has such a block now.
    """
    return ctx.block("get_block", name).name
