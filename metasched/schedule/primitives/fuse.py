"""fuse: fuse nested loops into one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, free_vars, simplify
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, Stmt, Var
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.guards import normal_form
from metasched.schedule.rewrite.loops import require_serial

OP = "fuse"


def _varying_loops(given: Mapping[str, Any]) -> list[bool]:
    """The loop as any of those that are fused."""
    return [any(given["loops"])]


@primitive(in_batches=unchanged, varying_loops=_varying_loops)
def fuse(ctx: Context, *loops: LoopName) -> LoopName:
    """Fuse loops, each directly inside the one before, into one over all their iterations.

    Args:
        loops: serial loops, outermost first; a single loop is returned unchanged.

    Requires:
        Each is the only statement in the body of the one before. Where a guard skips terms of a reduction, as for
        imperfect partial results, at least one loop in the guard remains a pure reduction loop.

    Rewrite:
        for i, j in grid(16, 8):             for i_j in 128:
            C[i, j] = A[i, j]          ->        C[i, j] = A[i, j]    with i = i_j // 8, j = i_j % 8
    """
    if not loops:
        raise ScheduleError(OP, "no loops are given", hint="give at least one loop")
    if len(loops) == 1:
        return ctx.loop(OP, loops[0]).var
    nest = [ctx.loop(OP, var) for var in loops]
    for outer, inner in pairwise(nest):
        require_serial(OP, outer)
        if outer.body is not inner:
            raise ScheduleError(
                OP,
                f"loop `{inner.var}` is not the only child of `{outer.var}`",
                (outer.var, inner.var),
                "reorder first, so that the loops are nested directly in this order",
            )
    require_serial(OP, nest[-1])
    for block in query.blocks_under(nest[-1]):
        _require_started(ctx, block, frozenset(loops))
    name = ctx.fresh("_".join(loops))
    values = _indices(nest, Var(name))
    body: Stmt = query.map_blocks(nest[-1].body, lambda b: query.substitute_block(b, values, normal_form))
    annotations = tuple(a for loop in nest for a in loop.annotations)
    fused = For(name, _product(nest), body, annotations=annotations)
    ctx.func = query.replace_stmt(ctx.func, nest[0], fused)
    return name


def _require_started(ctx: Context, block: Block, loops: frozenset[str]) -> None:
    """Raise where a guard that skips terms of a reduction would skip elements altogether: they would stay
    uninitialised."""
    if block.init is None:
        return
    over_elements = query.spatial_loops(block)
    own = query.reduced_loops(block) - over_elements
    if loops.isdisjoint(over_elements) or loops.isdisjoint(own):
        return
    error = ScheduleError(
        OP,
        f"a guard leaves out terms of `{block.name}`, and would leave out elements",
        (block.name, *sorted(loops & own)),
        "decompose_reduction first, or do not fuse loops over elements with those of the reduction",
    )
    above = query.loops_above(ctx.func, block.name)
    for guard in block.guards:
        used = free_vars(guard)
        if used & own and not used & own - loops:
            ctx.require_everywhere(guard, above, error)


def _product(nest: list[For]) -> Expr:
    product: Expr = ONE
    for loop in nest:
        product = product * loop.extent
    return simplify(product)


def _indices(nest: list[For], fused: Expr) -> dict[str, Expr]:
    values: dict[str, Expr] = {}
    for n, loop in enumerate(nest):
        inside = _product(nest[n + 1 :])
        index = Binary(BinOp.FLOORDIV, fused, inside)
        values[loop.var] = index if n == 0 else Binary(BinOp.MOD, index, loop.extent)
    return values
