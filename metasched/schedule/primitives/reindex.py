"""reindex: copy a buffer so that a block's iteration variables index it."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars_of
from metasched.ir.nodes import Block, Buffer, Expr, IterKind, IterVar, Load, Store, Var
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, BufferText
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.buffer_copies import (
    copy_after,
    copy_before,
    require_complete_before,
    require_in_bounds,
    require_read_after,
)
from metasched.schedule.rewrite.parts import replace_loads, require_only_writer, set_block
from metasched.support.messages import listing

OP = "reindex"


@primitive
def reindex(ctx: Context, block: BlockName, buffer: BufferText) -> BlockName:
    """Let a block access a copy of a buffer that is indexed by the block's iteration variables, in their order.

    For a buffer that is read, the copy `BLOCK.BUFFER.reindex` comes before the block's outermost loop and duplicates
    overlapping elements: a convolution's input becomes a matrix (im2col). For the buffer that is written, it comes
    after the block and copies every element to its original position. The new buffer is `BUFFER_reindex`.

    Args:
        block: the block.
        buffer: the name of a buffer that it reads or writes.

    Requires:
        The block has one read of the buffer, in bounds in every iteration. No loop of the block computes the buffer or
        reads the block's result, and no other block writes that result.

    Rewrite:
        for i, r in grid(8, 3):                      for i_.., r_.. in grid(8, 3):
            conv: Y[i] += X[i + r]            ->         conv.X.reindex: X_reindex[i, r] = X[i + r]
                                                     for i, r in grid(8, 3):
                                                         conv: Y[i] += X_reindex[i, r]
    """
    user = ctx.block(OP, block)
    if user.index is not None:
        raise ScheduleError(
            OP, f"block `{block}` writes a value and its position", (block,), "cache_read and cache_write copy buffers"
        )
    if buffer == user.store.buffer:
        return _reindex_write(ctx, user)
    if buffer in query.reads(user):
        return _reindex_read(ctx, user, buffer)
    used = listing((*query.reads(user), user.store.buffer))
    raise ScheduleError(OP, f"block `{block}` neither reads nor writes `{buffer}`", (block,), f"it uses {used}")


def _reindex_read(ctx: Context, reader: Block, buffer: str) -> str:
    loads = [load for load in query.loads(reader.store.value) if load.buffer == buffer]
    if not loads:
        raise ScheduleError(
            OP,
            f"the reduction of block `{reader.name}` starts from `{buffer}`",
            (reader.name,),
            "cache_read copies it as it is",
        )
    if any(load != loads[0] for load in loads):
        raise ScheduleError(
            OP,
            f"block `{reader.name}` reads `{buffer}` at several places",
            (reader.name,),
            "cache_read copies it as it is",
        )
    require_complete_before(ctx, OP, reader.name, buffer)
    require_in_bounds(ctx, OP, reader, loads[0])
    used = free_vars_of(i for i in loads[0].indices)
    iters = [replace(it, kind=IterKind.SPATIAL) for it in reader.iters if it.name in used]
    target = _copy_of(ctx, buffer, iters)
    name = ctx.fresh(f"{reader.name}.{buffer}.reindex")
    at = tuple(Var(it.name) for it in iters)
    value = replace_loads(reader.store.value, buffer, lambda _: Load(target.name, at, target.dtype))
    ctx.func = set_block(ctx.func, reader, replace(reader, store=replace(reader.store, value=value)))
    copy_before(ctx, reader.name, _copy_block(name, iters, Store(target.name, at, loads[0])), target)
    return name


def _reindex_write(ctx: Context, writer: Block) -> str:
    buffer = writer.store.buffer
    require_only_writer(ctx, OP, writer)
    require_read_after(ctx, OP, writer.name, buffer)
    shown = {i.name for i in writer.store.indices if isinstance(i, Var)}
    iters = [it for it in writer.iters if it.name in shown]
    source = _copy_of(ctx, buffer, iters)
    name = ctx.fresh(f"{writer.name}.{buffer}.reindex")
    at: tuple[Expr, ...] = tuple(Var(it.name) for it in iters)
    copy = Store(buffer, writer.store.indices, Load(source.name, at, source.dtype))
    moved = replace(writer, store=replace(writer.store, buffer=source.name, indices=at))
    ctx.func = set_block(ctx.func, writer, moved)
    copy_after(ctx, writer.name, _copy_block(name, iters, copy), source)
    return name


def _copy_of(ctx: Context, buffer: str, iters: list[IterVar]) -> Buffer:
    shape = tuple(it.extent for it in iters)
    return Buffer(ctx.fresh(f"{buffer}_reindex"), shape, ctx.func.buffer(buffer).dtype)


def _copy_block(name: str, iters: list[IterVar], store: Store) -> Block:
    """The copy; its bindings are placeholders, for `nest`."""
    return Block(name, tuple(iters), tuple(Var(it.name) for it in iters), (), store)
