"""sample_compute_location: where a producer is computed."""

from __future__ import annotations

from functools import partial

from metasched.ir import query
from metasched.lang.instructions import Ref
from metasched.schedule.context import Context, is_legal
from metasched.schedule.distributions.choice import Choice
from metasched.schedule.kinds import INLINE, ROOT, BlockName
from metasched.schedule.primitive import sampler
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline

OP = "sample_compute_location"


@sampler
def sample_compute_location(ctx: Context, block: BlockName) -> Choice:
    """Where to compute a block, for compute_at: a loop of its readers, `root` (as it is), or `inline`.

    A structural variable: its options are the loops of the first reader under which compute_at is legal, outermost
    first; `root`; and `inline` where compute_inline is legal.

    Args:
        block: the producer.
    """
    ctx.block(OP, block)
    options = [Ref(ROOT)]
    if is_legal(ctx, lambda trial: compute_inline(trial, block)):
        options.append(Ref(INLINE))
    readers = query.consumers(ctx.func, block)
    loops = query.loops_above(ctx.func, readers[0].name) if readers else ()
    options.extend(Ref(loop.var) for loop in loops if is_legal(ctx, partial(_attempt, block, loop.var)))
    return Choice(tuple(options))


def _attempt(block: str, loop: str, trial: Context) -> None:
    compute_at(trial, block, loop)
