"""cache_read: copy a buffer for one of its readers."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Buffer, IndexMap, Load, Var
from metasched.lang.instructions import Instruction, Ref
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, BufferText, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.buffer_copies import copy_before, require_complete_before
from metasched.schedule.rewrite.nest import copy_block, index_names
from metasched.schedule.rewrite.parts import replace_block_loads, scope_named, set_block
from metasched.support.messages import listing

OP = "cache_read"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """The copy has the batch's dimensions where the buffer has them, and lies the other way where that does."""
    batching.run(instruction)
    (copy,) = instruction.outputs
    if batching.note_copy(str(instruction.args[1]), copy):
        names = ("d0", "d1")
        as_written = IndexMap(names, tuple(Var(name) for name in names))
        batching.lay_out(replace(instruction, args=(Ref(copy),)), as_written)


@primitive(in_batches=_in_batches)
def cache_read(ctx: Context, block: BlockName, buffer: BufferText, scope: Text = "global") -> BlockName:
    """Copy a buffer that a block reads into a new buffer, which the block then reads instead.

    The copy is a block `BLOCK.BUFFER.read` over the whole buffer, placed before the block's outermost loop; compute_at
    moves it to where it is needed. The new buffer is `BUFFER_SCOPE`.

    Args:
        block: the reader.
        buffer: the name of the buffer.
        scope: where the copy lives: "global", "local" or "register".

    Requires:
        The block reads the buffer, and no loop of the block computes it.

    Rewrite:
        for i, k in grid(8, 8):                      for i_row_A_read, k_row_A_read in grid(8, 8):
            row: C[i] += A[i, k]              ->         row.A.read: A_local[i, k] = A[i, k]
                                                     for i, k in grid(8, 8):
                                                         row: C[i] += A_local[i, k]
    """
    reader = ctx.block(OP, block)
    where = scope_named(OP, scope)
    _require_legal(ctx, block, buffer)
    source = ctx.func.buffer(buffer)
    first = next(load for load in query.reads_of(reader) if load.buffer == buffer)
    target = Buffer(ctx.fresh(f"{buffer}_{scope}"), source.shape, source.dtype, where)
    name = ctx.fresh(f"{block}.{buffer}.read")
    redirected = replace_block_loads(reader, buffer, lambda indices: Load(target.name, indices, source.dtype))
    ctx.func = set_block(ctx.func, reader, redirected)
    copy = copy_block(name, Load(buffer, (), source.dtype), target.name, index_names(ctx, first.indices), source.shape)
    copy_before(ctx, block, copy, target)
    return name


def _require_legal(ctx: Context, block: str, buffer: str) -> None:
    read = query.reads(ctx.block(OP, block))
    if buffer not in read:
        known = listing(read, none="nothing")
        raise ScheduleError(OP, f"block `{block}` does not read `{buffer}`", (block,), f"it reads {known}")
    require_complete_before(ctx, OP, block, buffer)
