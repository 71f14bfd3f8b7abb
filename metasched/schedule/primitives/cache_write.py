"""cache_write: let a block write a temporary buffer, copied out when it is complete."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Block, Buffer, Load
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.buffer_copies import copy_after, require_read_after
from metasched.schedule.rewrite.nest import copy_block, index_names
from metasched.schedule.rewrite.parts import require_one_result, scope_named, writers

OP = "cache_write"


@primitive
def cache_write(ctx: Context, block: BlockName, scope: Text = "global") -> BlockName:
    """Let a block write a new buffer, and copy that to the buffer that the block wrote before.

    The copy is a block `BLOCK.BUFFER.write` over the whole buffer, placed after the block's outermost loop;
    reverse_compute_at moves it to where its elements are complete. The new buffer is `BUFFER_SCOPE`.

    Args:
        block: the writer.
        scope: where the cache lives: "global", "local" or "register".

    Requires:
        No reader of the block's result is inside one of its loops, and the block completes that result: it is neither
        the `init` block of a decomposed reduction nor an arg-reduction.

    Rewrite:
        for i, k in grid(8, 8):                      for i, k in grid(8, 8):
            row: C[i] += A[i, k]              ->         row: C_local[i] += A[i, k]
                                                     for i_row_C_write in 8:
                                                         row.C.write: C[i] = C_local[i]
    """
    writer = ctx.block(OP, block)
    require_one_result(OP, writer, "compute_at works on it as it is")
    where = scope_named(OP, scope)
    buffer = ctx.func.buffer(writer.store.buffer)
    _require_legal(ctx, block, buffer.name)
    cache = Buffer(ctx.fresh(f"{buffer.name}_{scope}"), buffer.shape, buffer.dtype, where)
    name = ctx.fresh(f"{block}.{buffer.name}.write")

    def redirect(b: Block) -> Block:
        return replace(b, store=replace(b.store, buffer=cache.name)) if b.store.buffer == buffer.name else b

    ctx.func = replace(ctx.func, body=query.map_blocks(ctx.func.body, redirect))
    source = Load(cache.name, (), buffer.dtype)
    copy = copy_block(name, source, buffer.name, index_names(ctx, writer.store.indices), buffer.shape)
    copy_after(ctx, block, copy, cache)
    return name


def _require_legal(ctx: Context, block: str, buffer: str) -> None:
    last = writers(ctx.func, buffer)[-1].name
    if last != block:
        raise ScheduleError(
            OP, f"block `{block}` does not complete `{buffer}`, `{last}` does", (block, last), f"cache_write `{last}`"
        )
    require_read_after(ctx, OP, block, buffer, f"; or set_scope on `{block}`")
