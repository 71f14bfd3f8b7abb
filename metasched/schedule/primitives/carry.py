"""carry: each element of a running reduction goes on from the one before."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Block, For, LoopKind
from metasched.ir.running import NotRunning, running_reduction
from metasched.schedule.batching import unchanged
from metasched.schedule.carried import carried_by
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import mark, only_block, require_serial
from metasched.schedule.rewrite.parts import require_only_writer

OP = "carry"


@primitive(in_batches=unchanged)
def carry(ctx: Context, loop: LoopName) -> None:
    """Go on from the element before: of each element of a running reduction, add only the term that is new.

    An element of `sum[k < N if k <= j](X[k])` is a sum of its own, N * N / 2 terms in all. One after another, with the
    element before to begin with, they take N. Elements are added up in the order of their terms, as without it. The
    elements wait for one another: vectors and threads are for what runs beside them, such as the columns of a matrix
    whose rows are added up, and `decompose_scan` is for long rows that are alone.

    Args:
        loop: the serial loop over the elements that a running reduction goes along.

    Requires:
        One block is inside, a running reduction: `<=` or `<` between its reduction variable and the loop's. The loops
        over both were not split or fused, that over terms is inside the loop, and no loop around is vectorised. The
        block has its `init`.

    Rewrite:
        for j, k in grid(64, 64):                       for j in 64:
            Y[j] += X[k] if k <= j else 0        ->         Y[j] = Y[j - 1] + X[j] if j > 0 else X[j]
    """
    along = ctx.loop(OP, loop)
    require_serial(OP, along)
    block = only_block(OP, along)
    _require_running(block)
    path = query.loops_above(ctx.func, block.name)
    found = carried_by(block, path)
    if found is None or found[0] is not along:
        raise ScheduleError(
            OP,
            f"loop `{loop}` does not go over the elements that `{block.name}` runs along, or its terms are split",
            (loop, block.name),
            "carry the loop over elements, before it or that over terms is split or fused",
        )
    over = found[1]
    require_serial(OP, over)
    _require_order(path, along, over)
    require_only_writer(ctx, OP, block)
    mark(ctx, over, LoopKind.CARRIED)
    mark(ctx, ctx.loop(OP, loop), LoopKind.CARRIED)


def _require_running(block: Block) -> None:
    try:
        scan = running_reduction(block)
    except NotRunning as why:
        raise ScheduleError(
            OP,
            f"block `{block.name}` is no running reduction: {why}",
            (block.name,),
            "it is to be as `Y[j] = sum[k < N if k <= j](X[k])`",
        ) from None
    if scan.is_reverse:
        raise ScheduleError(
            OP,
            f"block `{block.name}` runs from the last element to the first",
            (block.name,),
            "loops count up: write it along the elements from the end, or decompose_scan it",
        )


def _require_order(path: tuple[For, ...], along: For, over: For) -> None:
    """Raise unless elements are completed one after another."""
    if path.index(over) < path.index(along):
        raise ScheduleError(
            OP,
            f"loop `{over.var}` over terms is around loop `{along.var}`",
            (over.var, along.var),
            f"reorder `{along.var}` outside of `{over.var}`",
        )
    lanes = next((x for x in path[: path.index(along)] if x.kind is LoopKind.VECTORIZED), None)
    if lanes is not None:
        raise ScheduleError(
            OP,
            f"loop `{lanes.var}` around it is vectorized",
            (along.var, lanes.var),
            "vectorize a loop inside it",
        )
