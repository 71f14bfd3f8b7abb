"""reorder: change the order of nested loops."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import For, LoopKind, Stmt
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.regions import require_regions

OP = "reorder"


@primitive(in_batches=unchanged)
def reorder(ctx: Context, *loops: LoopName) -> None:
    """Put nested loops into the given order; loops between them that are not named stay where they are.

    Args:
        loops: distinct loops of one nest, in the new order, outermost first.

    Requires:
        From the outermost to the innermost of them, each loop is the only child of the one around it. No parallel loop
        ends up inside a vectorised one, or apart from the loops of its shared parallel region.

    Rewrite:
        for i, j, k in grid(8, 8, 8):            for k, i, j in grid(8, 8, 8):
            C[i, j] += A[i, k] * B[k, j]   ->        C[i, j] += A[i, k] * B[k, j]
    """
    if len(set(loops)) != len(loops):
        raise ScheduleError(OP, "a loop is given twice", tuple(loops), "name each loop once")
    if len(loops) < 2:
        return
    wanted = {var: ctx.loop(OP, var) for var in loops}
    chain = _chain(ctx, list(wanted.values()))
    slots = [n for n, loop in enumerate(chain) if loop.var in wanted]
    order = list(chain)
    for slot, var in zip(slots, loops, strict=True):
        order[slot] = wanted[var]
    _require_parallel_outside(order)
    body: Stmt = chain[-1].body
    for loop in reversed(order):
        body = replace(loop, body=body)
    changed = query.replace_stmt(ctx.func, chain[0], body)
    scattered = next((loop for loop in chain if loop.kind is LoopKind.SCATTERED), None)
    if scattered is not None and set(chain[: chain.index(scattered)]) != set(order[: order.index(scattered)]):
        raise ScheduleError(
            OP,
            f"other loops would be around scattered loop `{scattered.var}`",
            (scattered.var,),
            "reorder before scatter",
        )
    moved = next((loop for loop in chain if loop.kind is LoopKind.PARALLEL), None)
    if moved is not None:
        require_regions(OP, changed, moved)
    ctx.func = changed


def _require_parallel_outside(order: list[For]) -> None:
    """Raise where a parallel loop would be inside a vectorised one."""
    vector = None
    for loop in order:
        if loop.kind is LoopKind.VECTORIZED:
            vector = loop
        elif loop.kind is LoopKind.PARALLEL and vector is not None:
            raise ScheduleError(
                OP,
                f"parallel loop `{loop.var}` would be inside vectorized loop `{vector.var}`",
                (loop.var, vector.var),
                "leave the parallel loop outside",
            )


def _chain(ctx: Context, loops: list[For]) -> list[For]:
    """The direct nest from the outermost of the loops to the innermost."""
    names = {loop.var for loop in loops}
    depth = {loop.var: len(query.loops_above_loop(ctx.func, loop.var)) for loop in loops}
    top = min(loops, key=lambda loop: depth[loop.var])
    chain = [top]
    found = {top.var}
    while found != names:
        child = chain[-1].body
        if not isinstance(child, For):
            missing = next(loop.var for loop in loops if loop.var not in found)
            raise ScheduleError(
                OP,
                f"loops `{top.var}` and `{missing}` are not in one direct nest: "
                f"`{chain[-1].var}` holds more than one loop, or a block",
                (top.var, missing),
                "reorder before moving other blocks between them",
            )
        chain.append(child)
        found |= {child.var} & names
    return chain
