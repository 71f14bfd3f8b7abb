"""compute_at: move a producer into a loop around its readers."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Block, Expr, For, LoopKind
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import INLINE, ROOT, BlockName, Location
from metasched.schedule.primitive import primitive
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.rewrite.guards import iteration_guards, region_guards
from metasched.schedule.rewrite.nest import nest
from metasched.schedule.rewrite.parts import (
    child_with,
    insert,
    loops_of,
    readers,
    reduction,
    require_intermediate,
    require_only_writer,
    require_producers_stay,
    take_out,
)
from metasched.schedule.rewrite.read_regions import needed_spans

OP = "compute_at"


@primitive(in_batches=unchanged)
def compute_at(ctx: Context, block: BlockName, loop: Location) -> None:
    """Move a producer into a loop around its readers; each iteration computes just the region that they read in it.

    The block gets new serial loops, one per iteration variable: over the required region for those that index its
    buffer, over the whole domain for reductions. Elements that several iterations need are recomputed in each.

    Args:
        block: the producer; it may be a reduction.
        loop: a loop around all its readers; `root` leaves the block where it is, `inline` applies compute_inline.

    Requires:
        The buffer is intermediate and has no other writer. All readers are under the loop, and what the block reads is
        complete before the first of them. The loop is not around the block already, nor inside a vectorised loop, nor
        inside a reduction loop of a reader whose `init` reads the buffer.

    Rewrite:
        for i in 66:                                 for i_0 in 8:
            double: B[i] = A[i] * 2                      for i_double in 10:
        for i_0, i_1 in grid(8, 8):           ->             double: B[i] = A[i] * 2  with i = i_0*8 + i_double
            sum: C[i] = B[i] + B[i + 2]                  for i_1 in 8:
                                                             sum: C[i] = B[i] + B[i + 2]  with i = i_0*8 + i_1
    """
    if loop == ROOT:
        ctx.block(OP, block)
        return
    if loop == INLINE:
        compute_inline(ctx, block)
        return
    producer, target = ctx.block(OP, block), ctx.loop(OP, loop)
    require_intermediate(ctx, OP, producer, "reverse_compute_at moves a block under the loops of what it reads")
    require_only_writer(ctx, OP, producer)
    consumers = _consumers(ctx, producer, target)
    kept = frozenset(x.var for x in query.loops_above_loop(ctx.func, loop)) | {loop}
    require_producers_stay(ctx, OP, producer, kept)
    spans = needed_spans(ctx, OP, producer, consumers, target)
    above = query.loops_above(ctx.func, block)
    outside = tuple(x for x in above if x.var in kept)
    own = above[len(outside) :]
    guards = iteration_guards(OP, producer, own) + region_guards(OP, producer, own, outside)
    take_out(ctx, producer)
    target = ctx.loop(OP, loop)
    position = _position(consumers, target)
    ctx.func = insert(ctx.func, target, position, nest(ctx, producer, spans, guards))


def _consumers(ctx: Context, producer: Block, loop: For) -> list[Block]:
    """The producer's readers. Raises ScheduleError unless it can be computed at the loop."""
    if loop.var in loops_of(ctx.func, producer.name):
        raise ScheduleError(
            OP,
            f"block `{producer.name}` is already under loop `{loop.var}`",
            (producer.name, loop.var),
            "choose a loop around its readers that is not around the block",
        )
    consumers = readers(ctx.func, *query.written_buffers(producer))
    if not consumers:
        raise ScheduleError(
            OP,
            f"nothing reads what `{producer.name}` computes",
            (producer.name, loop.var),
            "leave it: a condition that always holds has taken the place of its readers",
        )
    outside = [c.name for c in consumers if loop.var not in loops_of(ctx.func, c.name)]
    if outside:
        raise ScheduleError(
            OP,
            f"`{outside[0]}`, which reads `{producer.name}`, is not under loop `{loop.var}`",
            (producer.name, outside[0], loop.var),
            "choose a loop around all readers of the block, or move the readers together first",
        )
    path = (*query.loops_above_loop(ctx.func, loop.var), loop)
    decided = next((x for x in path if x.kind in (LoopKind.VECTORIZED, LoopKind.SCATTERED, LoopKind.CARRIED)), None)
    if decided is not None:
        raise ScheduleError(
            OP,
            f"loop `{decided.var}` is {decided.kind.value}",
            (producer.name, decided.var),
            "compute_at before deciding how it runs",
        )
    _require_before_start(producer, consumers, path)
    return consumers


def _require_before_start(producer: Block, consumers: list[Block], path: tuple[For, ...]) -> None:
    """Raise where a reduction would start from a value that is computed within it."""
    for consumer in consumers:
        if consumer.init is None or not _reads(consumer.init, producer):
            continue
        reducing = {name for _, binding in reduction(consumer) for name in free_vars(binding)}
        within = next((x.var for x in path if x.var in reducing), None)
        if within is not None:
            raise ScheduleError(
                OP,
                f"`{consumer.name}` starts from what `{producer.name}` computes before its reduction loop `{within}`",
                (producer.name, consumer.name, within),
                f"choose a loop outside of `{within}`",
            )


def _reads(e: Expr, producer: Block) -> bool:
    return any(load.buffer in query.written_buffers(producer) for load in query.loads(e))


def _position(consumers: list[Block], loop: For) -> int:
    """The position of the first reader in the loop's body: what the producer reads is computed before it."""
    found = [child_with(loop.body, c.name) for c in consumers]
    return min(at for at in found if at is not None)
