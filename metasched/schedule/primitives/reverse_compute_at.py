"""reverse_compute_at: move a consumer into a loop around its producers."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, NotAffine
from metasched.ir.integers.data import is_index_variable
from metasched.ir.integers.ranges import bounds, prove
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, IterKind, IterVar, LoopKind, Var
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import INLINE, ROOT, BlockName, Location
from metasched.schedule.primitive import primitive
from metasched.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from metasched.schedule.rewrite.guards import iteration_guards
from metasched.schedule.rewrite.nest import Span, nest
from metasched.schedule.rewrite.parts import (
    child_with,
    insert,
    loops_of,
    require_only_writer,
    take_out,
    writers,
)
from metasched.schedule.rewrite.written_regions import completed_spans
from metasched.support.messages import listing

OP = "reverse_compute_at"


@primitive(in_batches=unchanged)
def reverse_compute_at(ctx: Context, block: BlockName, loop: Location) -> None:
    """Move a consumer into a loop around its producers; each iteration processes just the elements completed in it.

    The block gets new serial loops, one for each of its iteration variables: over the completed region for those that
    index it, over the whole domain for the others.

    Args:
        block: the consumer; it may be a reduction, if all it reduces over is complete there.
        loop: a loop around blocks whose results it reads; `root` leaves the block where it is, `inline` applies
            reverse_compute_inline.

    Requires:
        In each iteration of the loop, the reductions that the block reads are completed for a box of consecutive
        elements that no other iteration completes. Where the box is less than a whole dimension, the block reads that
        dimension at one bare spatial iteration variable. Everything else that it reads is complete before. No other
        block writes its buffer. The block runs over its whole domain, or else what it reads was computed whole.

    Rewrite:
        for i_0, k, i_1 in grid(8, 64, 8):           for i_0 in 8:
            sum: C[i] += A[i, k]                         for k, i_1 in grid(64, 8):
        for i in 64:                          ->             sum: C[i] += A[i, k]  with i = i_0*8 + i_1
            relu: D[i] = max(C[i], 0)                    for i_relu in 8:
                                                             relu: D[i] = max(C[i], 0)  with i = i_0*8 + i_relu
    """
    if loop == ROOT:
        ctx.block(OP, block)
        return
    if loop == INLINE:
        reverse_compute_inline(ctx, block)
        return
    consumer, target = ctx.block(OP, block), ctx.loop(OP, loop)
    require_only_writer(ctx, OP, consumer)
    path = (*query.loops_above_loop(ctx.func, loop), target)
    _require_place(ctx, consumer, path)
    spans = _spans(ctx, consumer, path)
    _require_own_domain(ctx, consumer, spans)
    above = query.loops_above(ctx.func, block)
    guards = iteration_guards(OP, consumer, above[len(query.common_loops(above, path)) :])
    last = max(at for at in (child_with(target.body, p.name) for p in _sources(ctx, consumer)) if at is not None)
    take_out(ctx, consumer)
    ctx.func = insert(ctx.func, ctx.loop(OP, loop), last + 1, nest(ctx, consumer, spans, guards))


def _sources(ctx: Context, consumer: Block) -> list[Block]:
    """Blocks that write what the consumer reads; only the last one of each buffer, which completes it."""
    found = [writers(ctx.func, name) for name in query.reads(consumer)]
    return [blocks[-1] for blocks in found if blocks]


def _require_place(ctx: Context, consumer: Block, path: tuple[For, ...]) -> None:
    loop, sources = path[-1], _sources(ctx, consumer)
    _require_undecided(consumer, path)
    _require_outside(ctx, consumer, loop)
    _require_source_inside(ctx, consumer, loop, sources)
    _require_whole_sources(ctx, consumer)
    _require_none_later(ctx, consumer, loop, sources)


def _require_undecided(consumer: Block, path: tuple[For, ...]) -> None:
    """Raise where it is decided how a loop of the path runs, as that goes by what is inside."""
    decided = next((x for x in path if x.kind in (LoopKind.VECTORIZED, LoopKind.SCATTERED, LoopKind.CARRIED)), None)
    if decided is not None:
        raise ScheduleError(
            OP,
            f"loop `{decided.var}` is {decided.kind.value}",
            (consumer.name, decided.var),
            "reverse_compute_at before deciding how it runs",
        )


def _require_outside(ctx: Context, consumer: Block, loop: For) -> None:
    """Raise where the consumer is in the loop already."""
    if loop.var in loops_of(ctx.func, consumer.name):
        raise ScheduleError(
            OP,
            f"block `{consumer.name}` is already under loop `{loop.var}`",
            (consumer.name, loop.var),
            "choose a loop of what it reads that is not around the block",
        )


def _require_source_inside(ctx: Context, consumer: Block, loop: For, sources: list[Block]) -> None:
    """Raise where the loop computes nothing that the consumer reads."""
    if not any(loop.var in loops_of(ctx.func, source.name) for source in sources):
        raise ScheduleError(
            OP,
            f"nothing that `{consumer.name}` reads is computed under loop `{loop.var}`",
            (consumer.name, loop.var),
            f"choose a loop of {listing((p.name for p in sources), none='a block whose result it reads')}",
        )


def _require_whole_sources(ctx: Context, consumer: Block) -> None:
    """Raise where several blocks each write a part of what the consumer reads."""
    for name in query.reads(consumer):
        parts = next((g for g in query.partitions(writers(ctx.func, name)) if len(g) > 1), None)
        if parts is not None:
            raise ScheduleError(
                OP,
                f"`{parts[0].name}` and `{parts[1].name}` each write a part of `{name}`, which `{consumer.name}` reads",
                (consumer.name, parts[0].name, parts[1].name),
                f"{OP} before loop_partition",
            )


def _require_none_later(ctx: Context, consumer: Block, loop: For, sources: list[Block]) -> None:
    """Raise where something that the consumer reads is computed after the loop."""
    order = [b.name for b in query.blocks(ctx.func)]
    end = max(order.index(b.name) for b in query.blocks_under(loop))
    late = next((p.name for p in sources if order.index(p.name) > end), None)
    if late is not None:
        raise ScheduleError(
            OP,
            f"`{late}`, which `{consumer.name}` reads, is computed after loop `{loop.var}`",
            (consumer.name, late, loop.var),
            f"move `{late}` under the loop first",
        )


def _spans(ctx: Context, consumer: Block, path: tuple[For, ...]) -> dict[str, Span]:
    """The values of the consumer's iteration variables in one iteration of the loops of `path`.

    These are the values that one source completes there, so that each is processed once; the other sources must have
    completed them too.
    """
    found: list[tuple[bool, dict[str, Span]]] = []
    for source in _sources(ctx, consumer):
        shared = query.common_loops(path, query.loops_above(ctx.func, source.name))
        if shared:
            completed = completed_spans(ctx, OP, source, shared)
            found.append((len(shared) == len(path), _spans_by_variable(consumer, source, completed, path[-1])))
    ranges = query.ranges(path)
    for innermost, spans in found:
        if innermost and all(_contains(other, spans, ranges) for _, other in found):
            return spans
    raise ScheduleError(
        OP,
        f"what `{consumer.name}` reads is complete for different elements in loop `{path[-1].var}`",
        (consumer.name, path[-1].var),
        "choose a loop further out",
    )


def _require_own_domain(ctx: Context, consumer: Block, spans: dict[str, Span]) -> None:
    """Raise where the new loops would run over more than the block does, while what it reads is computed in part, too:
    both were moved to where a part of them was needed.
    """
    parts = [source.name for source in _sources(ctx, consumer) if _partial_variables(ctx, source)]
    more = [name for name in _partial_variables(ctx, consumer) if name not in spans]
    if parts and more:
        raise ScheduleError(
            OP,
            f"`{consumer.name}` and `{parts[0]}` are computed in part, and loops over all of `{more[0]}` would read "
            "the rest",
            (consumer.name, parts[0]),
            f"{OP} before compute_at",
        )


def _partial_variables(ctx: Context, block: Block) -> list[str]:
    """The iteration variables of which a block runs over a part, whatever the loops around it do."""
    ranges = query.ranges(query.loops_above(ctx.func, block.name))
    found = []
    for it, binding in zip(block.iters, block.bindings, strict=True):
        try:
            reached = bounds(binding, ranges)
        except NotAffine:
            continue  # A quotient or a remainder, as fusing leaves, which is of the whole.
        outside = (Binary(BinOp.GT, reached.lo, ZERO), Binary(BinOp.LT, reached.hi + 1, it.extent))
        if any(prove(cond, {}) for cond in outside):
            found.append(it.name)
    return found


def _spans_by_variable(consumer: Block, source: Block, completed: list[Span | None], loop: For) -> dict[str, Span]:
    """The completed spans of partially completed dimensions, by the iteration variable that reads each."""
    by_name = {it.name: it for it in consumer.iters}
    reads = [x.indices for x in query.reads_of(consumer) if x.buffer in query.written_buffers(source)]
    out: dict[str, Span] = {}
    for dimension, span in enumerate(completed):
        if span is None:
            continue
        indices = {load[dimension] for load in reads}
        index = next(iter(indices))
        if len(indices) > 1 or not is_index_variable(index) or index.name in out:
            raise ScheduleError(
                OP,
                f"`{consumer.name}` reads elements of `{source.store.buffer}` that other iterations of loop "
                f"`{loop.var}` complete",
                (consumer.name, source.name, loop.var),
                "choose a loop further out; or compute_at, which computes again what several iterations need",
            )
        if by_name[index.name].kind is IterKind.REDUCE:
            raise ScheduleError(
                OP,
                f"`{consumer.name}` reduces over `{index.name}`, of which an iteration of loop `{loop.var}` completes "
                "a part",
                (consumer.name, source.name, loop.var),
                "choose a loop further out; rfactor the reduction first to have partial results",
            )
        _require_no_more(by_name[index.name], consumer, source, dimension)
        out[index.name] = span
    return out


def _require_no_more(it: IterVar, consumer: Block, source: Block, dimension: int) -> None:
    """Raise where the consumer's range exceeds what the source writes, as with padding: no iteration would cover the
    rest."""
    index = source.store.indices[dimension]
    extent = next((x.extent for x in source.iters if Var(x.name) == index), it.extent)
    if prove(Binary(BinOp.LE, it.extent, extent), {}) is not True:
        raise ScheduleError(
            OP,
            f"`{consumer.name}` runs over more of `{it.name}` than `{source.name}` computes",
            (consumer.name, source.name),
            f"compute_at moves `{source.name}` under the loops of `{consumer.name}`",
        )


def _contains(outer: dict[str, Span], inner: dict[str, Span], ranges: dict[str, Expr]) -> bool:
    return all(name in inner and _covers(span, inner[name], ranges) for name, span in outer.items())


def _covers(outer: Span, inner: Span, ranges: dict[str, Expr]) -> bool:
    if outer == inner:
        return True
    if outer.guards:
        return False
    before = prove(Binary(BinOp.GE, inner.lo - outer.lo, ZERO), ranges)
    end = Binary(BinOp.LE, inner.lo + inner.extent, outer.lo + outer.extent)
    return bool(before and prove(end, ranges))
