"""Inserting copies of buffers before or after the nest of a block, and their preconditions."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import NotAffine
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.ranges import bounds
from metasched.ir.nodes import Binary, BinOp, Block, Buffer, Expr, Load
from metasched.schedule.context import Context
from metasched.schedule.rewrite.nest import nest
from metasched.schedule.rewrite.parts import child_with, insert, readers, replace_buffers, writers


def require_complete_before(ctx: Context, op: str, block: str, buffer: str) -> None:
    """Raise where a loop around the block also contains a writer of the buffer that it reads."""
    for writer in writers(ctx.func, buffer):
        shared = query.common_loops(query.loops_above(ctx.func, writer.name), query.loops_above(ctx.func, block))
        if shared:
            raise ScheduleError(
                op,
                f"`{buffer}` is computed by `{writer.name}` inside loop `{shared[-1].var}` of `{block}`",
                (block, writer.name, shared[-1].var),
                f"{op} before moving `{writer.name}` there with compute_at; or set_scope on `{writer.name}`",
            )


def require_read_after(ctx: Context, op: str, block: str, buffer: str, instead: str = "") -> None:
    """Raise where a loop around the block also contains a reader of its result; `instead` is an alternative for the
    hint."""
    mine = query.loops_above(ctx.func, block)
    for reader in readers(ctx.func, buffer):
        shared = query.common_loops(mine, query.loops_above(ctx.func, reader.name))
        if shared:
            raise ScheduleError(
                op,
                f"`{reader.name}` reads `{buffer}` inside loop `{shared[-1].var}` of `{block}`",
                (block, reader.name, shared[-1].var),
                f"{op} before moving `{reader.name}` there{instead}",
            )


def require_in_bounds(ctx: Context, op: str, block: Block, load: Load) -> None:
    """Raise unless the read stays inside the buffer for all values of the block's iteration variables."""
    ranges = {it.name: it.extent for it in block.iters}
    shape = ctx.func.buffer(load.buffer).shape
    error = ScheduleError(
        op,
        f"block `{block.name}` reads `{load.buffer}` at places that may be outside of it",
        (block.name,),
        "what a condition or other data decides is not known without it; give the padding a stage of its own",
    )
    for index, extent in zip(load.indices, shape, strict=True):
        if depends_on_data(index):
            raise error
        try:
            found = bounds(index, ranges)
        except NotAffine:
            raise error from None
        ctx.require(_nonnegative_guard(found.lo), error)
        ctx.require(Binary(BinOp.LT, found.hi, extent), error)


def _nonnegative_guard(low: Expr) -> Expr:
    return low >= 0


def copy_before(ctx: Context, block: str, copy: Block, target: Buffer) -> None:
    """Add a buffer and the nest that fills it, before the program's outermost statement that contains the block."""
    _insert(ctx, block, 0, copy, target)


def copy_after(ctx: Context, block: str, copy: Block, source: Buffer) -> None:
    """Add a buffer and the nest that copies it out, after the program's outermost statement that contains the block."""
    _insert(ctx, block, 1, copy, source)


def _insert(ctx: Context, block: str, offset: int, copy: Block, buffer: Buffer) -> None:
    ctx.func = replace_buffers(ctx.func, add=buffer)
    position = child_with(ctx.func.body, block)
    assert position is not None
    ctx.func = insert(ctx.func, None, position + offset, nest(ctx, copy, {}))
