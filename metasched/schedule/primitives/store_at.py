"""store_at: keep a producer's results across iterations in a sliding window."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, NotAffine, const, free_vars, linear, simplify
from metasched.ir.integers.ranges import region
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, LoopKind, Roll, Var
from metasched.ir.rolling import shared_loops
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import INLINE, ROOT, BlockName, Location
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import (
    readers,
    replace_temp,
    require_intermediate,
    require_one_result,
    require_only_writer,
    set_block,
    spatial,
)
from metasched.support.messages import listing

OP = "store_at"
_ORDERED_KINDS = (LoopKind.SERIAL, LoopKind.UNROLLED)


@primitive(in_batches=unchanged)
def store_at(ctx: Context, block: BlockName, loop: Location) -> None:
    """Keep what a block computes across iterations of a loop, so that each iteration computes only new elements.

    After compute_at, neighbouring iterations often need overlapping regions, and each computes its region in full. With
    the buffer's storage at an outer loop, the first iteration computes the whole region, and each later one only the
    new elements. Along the dimension that moves, the storage holds just the window that one iteration needs (Halide's
    `store_at`, with its sliding window and folded storage: Ragan-Kelley et al. 2013, section 4).

    Args:
        block: a producer that compute_at has put under a loop of its readers.
        loop: a loop around that one, or `root` for outside all loops.

    Requires:
        The loops between are serial, and each iteration moves the computed region along one dimension by a constant
        step, less than the region's extent. These loops cannot be changed afterwards.

    Rewrite:
        temp B: f32[66, 64]                          temp B: f32[66, 64]  at root, 3 of axis 0
        for y in 64:                                 for y in 64:
            for r, x in grid(3, 64):          ->         for r, x in grid(3, 64):
                B[y + r, x] = ...                            B[y + r, x] = ...  if y < 1 or r >= 2
            ... B[y, x] + B[y + 1, x] + B[y + 2, x]      ... B[y, x] + B[y + 1, x] + B[y + 2, x]
    """
    writer = ctx.block(OP, block)
    require_one_result(OP, writer, "leave its storage where it is computed")
    require_intermediate(ctx, OP, writer, "give it a cache with cache_write, and store that")
    require_only_writer(ctx, OP, writer)
    buffer = ctx.func.buffer(writer.store.buffer)
    if buffer.roll is not None or buffer.layout is not None:
        what = "is stored at a loop already" if buffer.roll is not None else "has a layout of its own"
        raise ScheduleError(OP, f"`{buffer.name}` {what}", (buffer.name,), "store_at once, without transform_layout")
    between = _loops_between(ctx, writer, loop)
    axis, lo, extent = _moving_region(ctx, writer, between)
    position, step = _progress(ctx, writer, lo, extent, between)
    name, binding = spatial(writer)[axis]
    _require_whole_regions(ctx, writer, binding, between)
    first = Binary(BinOp.LT, position, ONE)
    new = Binary(BinOp.GE, simplify(binding - lo), simplify(extent - step))
    guarded = replace(writer, guards=(*writer.guards, Binary(BinOp.OR, first, new)))
    dimension = writer.store.indices.index(Var(name))
    roll = Roll("" if loop == ROOT else loop, dimension, extent, step)
    ctx.func = replace_temp(set_block(ctx.func, writer, guarded), replace(buffer, roll=roll))


def _loops_between(ctx: Context, writer: Block, loop: str) -> tuple[For, ...]:
    """The loops from just inside the storage to where the block is computed."""
    users = readers(ctx.func, writer.store.buffer)
    shared = shared_loops(ctx.func, [writer, *users])
    if not users or not shared:
        raise ScheduleError(
            OP,
            f"block `{writer.name}` is not computed under a loop of its readers",
            (writer.name,),
            "compute_at first, at the loop whose iterations overlap",
        )
    names = [x.var for x in shared]
    if loop != ROOT and loop not in names[:-1]:
        raise ScheduleError(
            OP,
            f"`{loop}` is not a loop around `{names[-1]}`, where block `{writer.name}` is computed",
            (writer.name, names[-1]) if loop == INLINE else (writer.name, loop, names[-1]),
            f"choose {listing([*names[:-1], 'root'], 'or')}",
        )
    between = shared if loop == ROOT else shared[names.index(loop) + 1 :]
    for x in between:
        if x.kind not in _ORDERED_KINDS:
            raise ScheduleError(
                OP,
                f"the iterations of loop `{x.var}`, which is {x.kind.value}, are not in order",
                (writer.name, x.var),
                f"store at loop `{x.var}` or inside it",
            )
    return between


def _moving_region(ctx: Context, writer: Block, between: tuple[For, ...]) -> tuple[int, Expr, Expr]:
    """The spatial iteration variable that moves with the loops between, and its region (start, extent) in one
    iteration."""
    above = query.loops_above(ctx.func, writer.name)
    own = query.ranges(above[above.index(between[-1]) + 1 :])
    names = frozenset(x.var for x in between)
    found = []
    for n, (name, binding) in enumerate(spatial(writer)):
        try:
            lo, extent = region(binding, own)
            moves = linear(lo, names)[1]
        except NotAffine:
            raise _linearity_error(writer, between) from None
        if moves:
            found.append((n, name, lo, extent))
    if len(found) != 1:
        which = listing(name for _, name, _, _ in found)
        raise ScheduleError(
            OP,
            f"of the dimensions that `{writer.name}` computes, {which} move with loop `{between[-1].var}`; one has to",
            (writer.name, between[-1].var),
            "compute it at a loop along one dimension, and store it just outside",
        )
    n, _, lo, extent = found[0]
    return n, lo, extent


def _progress(ctx: Context, writer: Block, lo: Expr, extent: Expr, between: tuple[For, ...]) -> tuple[Expr, Expr]:
    """The region's distance from its first position, and its step from one iteration to the next."""
    _, terms = linear(lo, frozenset(x.var for x in between))
    if not all(isinstance(digit, Var) for digit in terms):
        raise _linearity_error(writer, between)
    position: Expr = ZERO
    expected: Expr | None = None
    for x in reversed(between):
        step = terms.pop(Var(x.var), None)
        if step is None:
            raise ScheduleError(
                OP,
                f"every iteration of loop `{x.var}` computes the same of `{writer.store.buffer}`",
                (writer.name, x.var),
                f"store at loop `{x.var}` or inside it, or reorder `{x.var}` outside first",
            )
        uneven = ScheduleError(
            OP,
            f"the region that `{writer.name}` computes does not move by the same step in every iteration of loop "
            f"`{x.var}`",
            (writer.name, x.var),
            f"store at loop `{x.var}`",
        )
        if expected is not None:
            ctx.require(Binary(BinOp.EQ, step, expected), uneven)
        expected = simplify(step * x.extent)
        position = position + Var(x.var) * step
    moved = linear(lo, frozenset({between[-1].var}))[1][Var(between[-1].var)]
    apart = ScheduleError(
        OP,
        f"neighbouring iterations of loop `{between[-1].var}` share nothing of `{writer.store.buffer}`",
        (writer.name, between[-1].var),
        "leave its storage where it is computed",
    )
    ctx.require(Binary(BinOp.GE, moved, ONE), apart)
    ctx.require(Binary(BinOp.LT, moved, extent), apart)
    return simplify(position), moved


def _require_whole_regions(ctx: Context, writer: Block, binding: Expr, between: tuple[For, ...]) -> None:
    """Refuse a block that leaves out some of its region by where it is in the region, and not by which element it is:
    the next iteration would take it for computed.
    """
    above = query.loops_above(ctx.func, writer.name)
    loops = free_vars(binding) & {x.var for x in above[above.index(between[0]) :]}
    if all(_is_of_elements(guard, binding, loops) for guard in writer.guards):
        return
    raise ScheduleError(
        OP,
        f"an iteration of loop `{between[-1].var}` does not compute all of its region of `{writer.store.buffer}`, and "
        "the next would take the rest for computed",
        (writer.name, between[-1].var),
        "leave its storage where it is computed",
    )


def _is_of_elements(guard: Expr, binding: Expr, loops: frozenset[str]) -> bool:
    """Whether a condition is the same wherever an index has the same value, as far as some loops of the index go."""
    if not free_vars(guard) & loops:
        return True
    if not isinstance(guard, Binary):
        return False
    if guard.op in (BinOp.AND, BinOp.OR):
        return all(_is_of_elements(part, binding, loops) for part in (guard.a, guard.b))
    try:
        index, asked = (linear(e, loops)[1] for e in (binding, guard.a - guard.b))
    except NotAffine:
        return False
    multiples = [{loop: simplify(factor * by) for loop, factor in index.items()} for by in (ONE, const(-1))]
    return {loop: simplify(factor) for loop, factor in asked.items()} in multiples


def _linearity_error(writer: Block, between: tuple[For, ...]) -> ScheduleError:
    return ScheduleError(
        OP,
        f"what `{writer.name}` computes is not linear in the loops between",
        (writer.name, between[-1].var),
        "store_at before fusing loops",
    )
