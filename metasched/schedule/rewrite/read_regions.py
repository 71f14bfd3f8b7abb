"""The region of a buffer that its readers need below a loop."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, NotAffine, const, free_vars, simplify, substitute
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.quasi_affine import quasi_affine
from metasched.ir.integers.ranges import region
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, IterVar, Load, Var
from metasched.schedule.context import Context
from metasched.schedule.rewrite.nest import Span, whole

Region = tuple[Expr, Expr]  # lowest index, extent


def needed_spans(ctx: Context, op: str, producer: Block, consumers: list[Block], loop: For) -> dict[str, Span]:
    """For each iteration variable of `producer` that indexes its buffer: the values that one iteration of `loop` needs.

    The extents are free of loop variables. A region whose start does not depend on outer loops is clipped to the domain
    here; guards keep the others inside it.
    """
    loops = frozenset(x.var for x in query.loops(ctx.func))
    per_load: list[list[Region | None]] = []
    for consumer in consumers:
        inner = _ranges_below(ctx, consumer, loop)
        values = {it.name: b for it, b in zip(consumer.iters, consumer.bindings, strict=True)}
        per_load += [
            [_region(op, producer, load, substitute(e, values), inner, loops) for e in load.indices]
            for load in dict.fromkeys(query.reads_of(consumer))  # conditions and sums read the same element often
            if load.buffer in query.written_buffers(producer)
        ]
    domain = {it.name: it for it in producer.iters}
    spans = {}
    for d, index in enumerate(producer.store.indices):
        if isinstance(index, Var):
            spans[index.name] = _span(_union([r[d] for r in per_load], loops), domain[index.name], loops)
    return spans


def _ranges_below(ctx: Context, block: Block, loop: For) -> dict[str, Expr]:
    above = query.loops_above(ctx.func, block.name)
    at = next(n for n, x in enumerate(above) if x.var == loop.var)
    return query.ranges(above[at + 1 :])


def _region(
    op: str, producer: Block, load: Load, index: Expr, inner: dict[str, Expr], loops: frozenset[str]
) -> Region | None:
    """The range of an index over the inner loops; None if it depends on data, or its extent on outer loops."""
    if depends_on_data(index):
        return None
    try:
        lo, extent = region(index, inner)
        if not quasi_affine(lo, loops):
            raise NotAffine("a product of loop variables")
        return None if free_vars(extent) & loops else (lo, extent)
    except NotAffine as error:
        raise ScheduleError(
            op,
            f"the part of `{load.buffer}` that is read is not known: {error}",
            (producer.name, load.buffer),
            "choose a loop further out, or inline the block",
        ) from None


def _union(regions: list[Region | None], loops: frozenset[str]) -> Region | None:
    """The smallest region that contains all; None if it is not known to be less than the whole domain."""
    first = regions[0]
    if first is None:
        return None
    low: Expr = ZERO
    high = first[1]
    for other in regions[1:]:
        if other is None:
            return None
        shift = simplify(other[0] - first[0])
        if free_vars(shift) & loops:
            return None
        low = simplify(Binary(BinOp.MIN, low, shift))
        high = simplify(Binary(BinOp.MAX, high, shift + other[1]))
    return simplify(first[0] + low), simplify(high - low)


def _span(found: Region | None, it: IterVar, loops: frozenset[str]) -> Span:
    if found is None:
        return whole(it)
    lo, extent = found
    if free_vars(lo) & loops:
        return Span(lo, extent, inside=False)
    first = simplify(Binary(BinOp.MAX, lo, ZERO))
    if first != ZERO:
        # Code that never runs may read out of bounds: any start will do, but it must be in the domain.
        first = simplify(Binary(BinOp.MIN, first, it.extent - 1))
    last = simplify(Binary(BinOp.MIN, lo + extent, it.extent))
    return Span(first, simplify(Binary(BinOp.MAX, last - first, const(1))), inside=True)
