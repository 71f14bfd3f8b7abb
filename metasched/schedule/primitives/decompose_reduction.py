"""decompose_reduction: split a reduction's initialisation into a separate block."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars, simplify, substitute
from metasched.ir.nodes import Block, Expr, For, IterKind, LoopKind, Seq, Stmt, Store, Var, no_position, seq
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import require_not_carried
from metasched.schedule.rewrite.nest import simplify_sides
from metasched.schedule.rewrite.parts import loops_of, require_only_writer, shared_with_readers
from metasched.schedule.rewrite.written_regions import completed_spans
from metasched.schedule.tensor import other_annotations
from metasched.support.messages import listing

OP = "decompose_reduction"


@primitive(in_batches=unchanged)
def decompose_reduction(ctx: Context, block: BlockName, loop: LoopName) -> BlockName:
    """Split a reduction into a block `BLOCK.init` that writes the initial value, before a loop, and the updates.

    The initial block gets copies of the block's spatial loops from that loop inward, of the same kind.

    Args:
        block: the reduction.
        loop: the loop before which the initialisation goes.

    Requires:
        The loop is around the block, which is the only writer of its buffer. No loop of the reduction is outside it,
        and the reduction uses none of the loops that the initialisation needs. No element is recomputed in different
        iterations of the loop or of a loop inside it, as can happen after compute_at.

    Rewrite:
        for i, k in grid(8, 64):                     for i in 8:
            sum: C[i] += A[i, k]  init 0      ->         sum.init: C[i] = 0
                                                         for k in 64:
                                                             sum: C[i] += A[i, k]
    """
    update, target = ctx.block(OP, block), ctx.loop(OP, loop)
    _require_legal(ctx, update, target)
    _require_computed_once(ctx, update, target)
    initial = _initial_nest(ctx, update, target)
    func = query.replace_stmt(ctx.func, update, replace(update, init=None))
    target = query.find_loop(func, loop)
    path = query.path_to(func, target)
    parent = path[-2] if len(path) > 1 else None
    if isinstance(parent, Seq):
        stmts = [s for old in parent.stmts for s in ((initial[1], old) if old is target else (old,))]
        ctx.func = query.replace_stmt(func, parent, seq(stmts))
    else:
        ctx.func = query.replace_stmt(func, target, seq((initial[1], target)))
    return initial[0]


def _require_legal(ctx: Context, update: Block, loop: For) -> None:
    if update.reducer is None or update.init is None:
        why = "is not a reduction" if update.reducer is None else "has its initialisation in a block already"
        raise ScheduleError(OP, f"block `{update.name}` {why}", (update.name,), "choose a reduction with an `init`")
    require_only_writer(ctx, OP, update)
    require_not_carried(ctx, OP, update)
    above = loops_of(ctx.func, update.name)
    if loop.var not in above:
        raise ScheduleError(
            OP,
            f"loop `{loop.var}` is not around block `{update.name}`",
            (update.name, loop.var),
            f"its loops are {listing(above)}",
        )
    reduced = query.reduced_loops(update)
    outside = [x for x in above[: above.index(loop.var)] if x in reduced]
    if outside:
        raise ScheduleError(
            OP,
            f"the reduction of `{update.name}` goes on in loop `{outside[0]}`, outside loop `{loop.var}`",
            (update.name, outside[0], loop.var),
            f"choose loop `{outside[0]}` or one further out",
        )
    mixed = [x for x in above[above.index(loop.var) :] if x in reduced and x in query.spatial_loops(update)]
    if mixed:
        raise ScheduleError(
            OP,
            f"loop `{mixed[0]}` is over both the elements and the reduction of `{update.name}`",
            (update.name, mixed[0]),
            "decompose before fusing them",
        )


def _require_computed_once(ctx: Context, update: Block, loop: For) -> None:
    """Raise unless the iterations of the loop, and of those inside, complete different elements.

    Only loops around a reader can recompute elements, so only these are checked.
    """
    shared = shared_with_readers(ctx, update)
    if all(x.var != loop.var for x in shared):
        return
    try:
        completed_spans(ctx, OP, update, shared)
    except ScheduleError:
        raise ScheduleError(
            OP,
            f"iterations of loop `{shared[-1].var}` may compute elements of `{update.store.buffer}` again, and would "
            "go on from the sums that are there",
            (update.name, shared[-1].var),
            f"choose a loop inside `{shared[-1].var}`",
        ) from None


def _no_position(index: Store) -> Store:
    return replace(index, value=no_position(index.value.dtype))


def _initial_nest(ctx: Context, update: Block, loop: For) -> tuple[str, Stmt]:
    """The initial block's name, and the block in copies of the loops it needs."""
    assert update.init is not None
    above = query.loops_above(ctx.func, update.name)
    start = next(n for n, x in enumerate(above) if x.var == loop.var)
    used = query.spatial_loops(update)
    copied = [x for x in above[start:] if x.var in used]
    # A guard over outer loops only applies here unchanged.
    left_out = frozenset(x.var for x in above[start:]) - used
    renamed: dict[str, Expr] = {x.var: Var(ctx.fresh(f"{x.var}_init")) for x in copied}
    name = ctx.fresh(f"{update.name}.init")
    pairs = [(it, b) for it, b in zip(update.iters, update.bindings, strict=True) if it.kind is IterKind.SPATIAL]
    stmt: Stmt = Block(
        name,
        tuple(it for it, _ in pairs),
        tuple(simplify(substitute(b, renamed)) for _, b in pairs),
        tuple(simplify_sides(substitute(g, renamed)) for g in update.guards if not free_vars(g) & left_out),
        Store(update.store.buffer, update.store.indices, update.init),
        index=None if update.index is None else _no_position(update.index),
    )
    for x in reversed(copied):
        var = renamed[x.var]
        assert isinstance(var, Var)
        # A copy of `loop` itself stays in its shared parallel region; loops further in belong to none.
        region = x.region if x.var == loop.var else ""
        kind = LoopKind.SERIAL if x.kind is LoopKind.SCATTERED else x.kind
        stmt = replace(x, var=var.name, body=stmt, kind=kind, annotations=other_annotations(x), region=region)
    return name, stmt
