"""unroll: repeat a loop's body."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir.nodes import LoopKind
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import mark, require_serial

OP = "unroll"
MAX_UNROLL = 512


@primitive(in_batches=unchanged)
def unroll(ctx: Context, loop: LoopName) -> None:
    """Unroll a loop fully: its body is repeated for each iteration.

    To limit the size of the code instead, `annotate` a block or loop with "unroll_limit".

    Args:
        loop: a serial loop.

    Requires:
        Its extent is at most 512.

    Rewrite:
        for i in 4:                     for i in 4 unrolled:
            C[i] = A[i]          ->         C[i] = A[i]
    """
    target = ctx.loop(OP, loop)
    require_serial(OP, target)
    too_long = ScheduleError(
        OP, f"the extent of loop `{loop}` is over {MAX_UNROLL}", (loop,), "split it and unroll the inner part"
    )
    ctx.require(target.extent <= MAX_UNROLL, too_long)
    mark(ctx, target, LoopKind.UNROLLED)
