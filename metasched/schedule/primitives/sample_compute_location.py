"""sample_compute_location: sample where a producer is computed."""

from __future__ import annotations

from functools import partial

from metasched.ir import query
from metasched.ir.affine import free_vars
from metasched.ir.nodes import Block, IterKind
from metasched.lang.instructions import Ref
from metasched.schedule.context import Context, is_legal
from metasched.schedule.distributions.choice import Choice
from metasched.schedule.kinds import INLINE, ROOT, BlockName
from metasched.schedule.primitive import sampler
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline

OP = "sample_compute_location"


@sampler(places=True)
def sample_compute_location(ctx: Context, block: BlockName) -> Choice:
    """Sample a location for compute_at: a loop around the block's readers, `root` (unchanged), or `inline`.

    A structural variable. Its options are `root`; `inline` where compute_inline is legal; and, outermost first, the
    loops of the first reader under which compute_at is legal, down to the innermost tile: spatial loops inside a
    reduction loop are excluded, since the block would be recomputed for each row of the tile there (as in
    MetaSchedule's `sample_compute_location`, Shao et al. 2022).

    Args:
        block: the producer.
    """
    ctx.block(OP, block)
    options = [Ref(ROOT)]
    if is_legal(ctx, lambda trial: compute_inline(trial, block)):
        options.append(Ref(INLINE))
    readers = query.consumers(ctx.func, block)
    loops = _outer_loops(ctx, readers[0]) if readers else []
    options.extend(Ref(loop) for loop in loops if is_legal(ctx, partial(_attempt, block, loop)))
    return Choice(tuple(options))


def _attempt(block: str, loop: str, trial: Context) -> None:
    compute_at(trial, block, loop)


def _outer_loops(ctx: Context, reader: Block) -> list[str]:
    """The reader's loops, outermost first, up to the first spatial one inside a reduction loop."""
    out: list[str] = []
    reduces = False
    for loop in query.loops_above(ctx.func, reader.name):
        driven = [it for it, e in zip(reader.iters, reader.bindings, strict=True) if loop.var in free_vars(e)]
        if any(it.kind is IterKind.REDUCE for it in driven):
            reduces = True
        elif reduces:
            break
        out.append(loop.var)
    return out
