"""Vector lanes along the innermost loop."""

from __future__ import annotations

from metasched.rules.facts import Vectorized

import metasched as ms


@ms.rule
def vectorize(sch: ms.Schedule, block: ms.BlockRV, *, lanes: tuple[int, ...] = (8, 16, 32)) -> ms.Skip | None:
    """Run the innermost loop, where it is data-parallel and the block is alone in it, in vector lanes.

    The width is a random variable.
    """
    info = sch.describe(block)
    if sch.facts(block, Vectorized) is not None:
        return ms.skip("it has a vector loop")
    if not info.loops:
        return ms.skip("it is in no loop")
    if ms.LoopKind.VECTORIZED in info.kinds:
        return ms.skip("a loop around it is vectorized")
    driven = info.iter_of(info.loops[-1])
    if info.kinds[-1] is not ms.LoopKind.SERIAL:
        return ms.skip("its innermost loop has been decided already")
    if not driven or any(it.reduces for it in driven):
        return ms.skip("its innermost loop runs along the reduction")
    if info.spatial and driven[-1].name != info.spatial[-1].name:
        return ms.skip("its innermost loop does not run along the last dimension")
    sch.vectorize(sch.get_loops(block)[-1], lanes=sch.sample_categorical(list(lanes), name="lanes"))
    sch.note(block, Vectorized())
    return None
