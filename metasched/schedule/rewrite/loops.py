"""What the loop primitives share: kinds, chains, and which loops carry a dependence."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars, simplify
from metasched.ir.limits import MAX_LOOPS
from metasched.ir.nodes import Block, For, IterKind, LoopKind, Var
from metasched.schedule.context import Context


def require_serial(op: str, loop: For) -> None:
    """Raise unless the loop is serial."""
    if loop.kind is not LoopKind.SERIAL:
        raise ScheduleError(
            op, f"loop `{loop.var}` is {loop.kind.value}", (loop.var,), f"{op} it before deciding how it runs"
        )


def only_block(op: str, loop: For) -> Block:
    """The block inside a loop. Raises ScheduleError where there are several."""
    blocks = query.blocks_under(loop)
    if len(blocks) > 1:
        names = tuple(block.name for block in blocks)
        raise ScheduleError(
            op,
            f"{len(blocks)} blocks are inside loop `{loop.var}`",
            (loop.var, *names),
            f"{op} a loop around one block alone",
        )
    return blocks[0]


def require_not_carried(ctx: Context, op: str, block: Block) -> None:
    """Raise where elements of a block go on from one another: their reduction is no whole any more."""
    carried = next((x for x in query.loops_above(ctx.func, block.name) if x.kind is LoopKind.CARRIED), None)
    if carried is not None:
        raise ScheduleError(
            op,
            f"elements of block `{block.name}` go on from one another along loop `{carried.var}`",
            (block.name, carried.var),
            f"{op} instead of carry",
        )


def require_shallow(ctx: Context, op: str, target: Block | For, more: int) -> None:
    """Raise when `more` loops at a loop or a block make a nest that is too deep."""
    deepest = max((query.loops_above(ctx.func, b.name) for b in query.blocks_under(target)), key=len)
    if len(deepest) + more > MAX_LOOPS:
        name = target.var if isinstance(target, For) else target.name
        raise ScheduleError(
            op,
            f"the nest would be {len(deepest) + more} loops deep; at most {MAX_LOOPS} are allowed",
            (name,),
            "fuse some",
        )


def own_nest(ctx: Context, op: str, block: Block) -> tuple[For, ...]:
    """The loops of an untransformed block, outermost first; raises ScheduleError for any other block.

    Untransformed means that each iteration variable has its own serial loop, the loops are directly nested and contain
    nothing else, and there are no guards.
    """
    above = query.loops_above(ctx.func, block.name)
    shared = next((x for x in above if len(query.blocks_under(x)) > 1), None)
    if shared is not None:
        raise ScheduleError(
            op,
            f"loop `{shared.var}` of block `{block.name}` is around other blocks as well",
            (block.name, shared.var),
            f"{op} before moving blocks together",
        )
    domain = {
        b.name: simplify(it.extent) for it, b in zip(block.iters, block.bindings, strict=True) if isinstance(b, Var)
    }
    whole = {x.var: simplify(x.extent) for x in above}
    if domain != whole or len(domain) != len(block.iters) or block.guards:
        raise ScheduleError(
            op,
            f"the loops of block `{block.name}` are not its iteration variables any more",
            (block.name,),
            f"{op} before splitting or fusing its loops",
        )
    for loop in above:
        require_serial(op, loop)
    return above


def require_data_parallel(ctx: Context, op: str, loop: For) -> None:
    """Raise unless iterations of the loop can run in any order, or at once.

    They can when no reduction runs along it, and each block inside either writes different elements in each iteration
    or writes a buffer that only this loop's body uses.
    """
    inside = query.blocks_under(loop)
    names = {b.name for b in inside}
    for block in inside:
        bound = [it for it, e in zip(block.iters, block.bindings, strict=True) if loop.var in free_vars(e)]
        if any(it.kind is IterKind.REDUCE for it in bound):
            raise ScheduleError(
                op,
                f"loop `{loop.var}` runs along a reduction of block `{block.name}`",
                (loop.var, block.name),
                "rfactor the loop first, or choose another loop",
            )
        if not bound and not all(_is_private(ctx, name, names) for name in query.written_buffers(block)):
            raise ScheduleError(
                op,
                f"every iteration of loop `{loop.var}` writes the same elements in block `{block.name}`",
                (loop.var, block.name),
                "choose a loop that the block's result depends on",
            )


def _is_private(ctx: Context, buffer: str, inside: set[str]) -> bool:
    if any(b.name == buffer for b in ctx.func.outputs):
        return False
    users = [b for b in query.blocks(ctx.func) if buffer in (*query.written_buffers(b), *query.reads(b))]
    return all(b.name in inside for b in users)


def mark(ctx: Context, loop: For, kind: LoopKind) -> None:
    """Set the kind of a loop."""
    ctx.func = query.replace_stmt(ctx.func, loop, replace(loop, kind=kind))
