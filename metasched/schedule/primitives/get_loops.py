"""get_loops: the loops around a block."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.lang.instructions import Instruction, Ref
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.primitives.reorder import OP as REORDER

OP = "get_loops"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """The loops over the batch are given labels of their own, and the element's are put in its order."""
    block = batching.block(instruction)
    own = {batching.own_loop(label): label for label in instruction.outputs}
    here = [loop.var for loop in query.loops_above(batching.whole, block)]
    if missing := [name for name in own if name not in here]:
        raise ScheduleError(OP, f"for a batch, `{block}` has no loop `{missing[0]}`", (block,))
    for name in here:
        if name not in own and not batching.over_batch(name):
            batching.add_over_batch(name, batching.fresh_label(f"batch_{name}"))
    labels = tuple(own[name] if name in own else batching.over_batch(name) for name in here)
    batching.run(replace(instruction, outputs=labels))
    # Loops over an operand that lies the other way.
    swapped = [b for a, b in zip((name for name in here if name in own), own, strict=True) if a != b]
    if swapped:
        batching.run(Instruction(REORDER, tuple(Ref(own[name]) for name in swapped)))


@primitive(pure=True, in_batches=_in_batches)
def get_loops(ctx: Context, block: BlockName) -> tuple[LoopName, ...]:
    """The loops around a block, outermost first.

    Args:
        block: any block.
    """
    ctx.block(OP, block)
    return tuple(loop.var for loop in query.loops_above(ctx.func, block))
