"""set_scope: where an intermediate buffer lives."""

from __future__ import annotations

from dataclasses import replace

from metasched.ir import query
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import require_intermediate, scope_named

OP = "set_scope"


@primitive(in_batches=unchanged)
def set_scope(ctx: Context, block: BlockName, scope: Text) -> None:
    """Set where the buffer that a block writes lives.

    Args:
        block: the block that writes the buffer.
        scope: "global"; "local", a workspace of each thread; or "register", vector registers.

    Requires:
        The buffer is intermediate: outputs are the caller's.

    Rewrite:
        temp C: f32[8, 16]                    ->     temp C: f32[8, 16] register
    """
    writer = ctx.block(OP, block)
    new = scope_named(OP, scope)
    require_intermediate(ctx, OP, writer, "give it a cache with cache_write, and set the scope of that")
    temps = tuple(replace(b, scope=new) if b.name in query.written_buffers(writer) else b for b in ctx.func.temps)
    ctx.func = replace(ctx.func, temps=temps)
