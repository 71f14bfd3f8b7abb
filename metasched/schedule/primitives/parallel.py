"""parallel: run a loop's iterations on several threads."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import For, LoopKind, Seq
from metasched.ir.regions import region_at
from metasched.lang.instructions import Instruction, Ref
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import require_data_parallel, require_serial
from metasched.schedule.rewrite.regions import require_regions

OP = "parallel"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """Threads share the elements of the batch where these are enough for all of them, and else the loop itself."""
    (loop,) = instruction.args
    assert isinstance(loop, Ref)
    outside = query.loops_above_loop(batching.whole, batching.loop(loop.name))
    over = [outer for outer in outside if batching.over_batch(outer.var)]
    if not batching.share_elements or prod(as_int(outer.extent) or 1 for outer in over) == 1:
        batching.set_shared_loop(loop.name, loop)
        batching.run(instruction)
    elif all(outer.kind is LoopKind.SERIAL for outer in over):
        shared = batching.fuse_loops(over)
        batching.set_shared_loop(loop.name, shared)
        batching.run(replace(instruction, args=(shared,)))
    else:
        shared_already = next(outer for outer in over if outer.kind is LoopKind.PARALLEL)
        batching.set_shared_loop(loop.name, Ref(batching.over_batch(shared_already.var)))


@primitive(in_batches=_in_batches, threads=True)
def parallel(ctx: Context, loop: LoopName) -> None:
    """Run a loop's iterations on all threads, in contiguous parts of about equal size.

    Args:
        loop: a serial loop.

    Requires:
        No reduction runs along the loop, its iterations write different elements, no loop around or inside it is
        parallel, and none around it is vectorised. A loop between loops of a shared parallel region joins that region;
        a loop nested in a part of a region that one thread runs cannot be parallel.

    Rewrite:
        for i in 64:                    parallel i in 64:
            C[i] = A[i]          ->         C[i] = A[i]
    """
    target = ctx.loop(OP, loop)
    require_serial(OP, target)
    require_data_parallel(ctx, OP, target)
    around = query.loops_above_loop(ctx.func, loop)
    inside = [s for s in query.loops(ctx.func) if target in query.loops_above_loop(ctx.func, s.var)]
    other = next((s for s in (*around, *inside) if s.kind is LoopKind.PARALLEL), None)
    if other is not None:
        raise ScheduleError(
            OP, f"loop `{other.var}` of the same nest is parallel", (loop, other.var), "fuse the two loops instead"
        )
    decided = next((s for s in around if s.kind in (LoopKind.VECTORIZED, LoopKind.SCATTERED)), None)
    if decided is not None:
        raise ScheduleError(
            OP,
            f"loop `{decided.var}` around it is {decided.kind.value}",
            (loop, decided.var),
            f"parallel a loop around `{decided.var}` instead",
        )
    # Between loops of a shared region, it joins that region.
    changed = query.replace_stmt(ctx.func, target, replace(target, kind=LoopKind.PARALLEL, region=_region(ctx, target)))
    require_regions(OP, changed, target)
    ctx.func = changed


def _region(ctx: Context, loop: For) -> str:
    """The shared region that a loop lies in, '' for none."""
    path = query.path_to(ctx.func, loop)
    parent = path[-2] if len(path) > 1 else None
    if not isinstance(parent, Seq):
        return ""
    return region_at(parent, next(n for n, stmt in enumerate(parent.stmts) if stmt is loop))
