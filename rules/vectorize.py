"""Vector lanes along the innermost loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from metasched.rules.facts import Factored, InRuns, Vectorized

import metasched as ms


@ms.rule
def vectorize(sch: ms.Schedule, block: ms.BlockRV, *, lanes: tuple[int, ...] = (8, 16, 32)) -> ms.Skip | None:
    """Run the innermost loop, where it is data-parallel and the block is alone in it, in vector lanes.

    For contiguous partial results, the loop over them is first moved innermost. The width is a random variable.

    A block that divides or calls a math function may also take twice the widest: that is a chain of dependent
    instructions, and interleaving several vectors hides their latency. So may one whose rows are cut into runs.

    Args:
        lanes: what the width may be.
    """
    info = sch.describe(block)
    if info.expensive or info.costly or sch.facts(block, InRuns) is not None:
        lanes = (*lanes, 2 * max(lanes))
    if sch.facts(block, Vectorized) is not None:
        return ms.skip("it has a vector loop")
    if not info.loops:
        return ms.skip("it is in no loop")
    if ms.LoopKind.VECTORIZED in info.kinds:
        return ms.skip("a loop around it is vectorized")
    if info.held[-1] > 1:
        return ms.skip("other blocks are in its innermost loop")
    driven = info.iter_of(info.loops[-1])
    if info.kinds[-1] is not ms.LoopKind.SERIAL:
        return ms.skip("its innermost loop has been decided already")
    factored = sch.facts(block, Factored)
    if factored is not None and factored.lanes is not None:
        return _partial_results(sch, block, info, factored.lanes, lanes)
    if not driven or any(it.reduces for it in driven):
        return ms.skip("its innermost loop runs along the reduction")
    if info.spatial and driven[-1].name != info.spatial[-1].name:
        return ms.skip("its innermost loop does not run along the last dimension")
    return _checked(sch, partial(_vectorize, block=block, lanes=lanes))


def _partial_results(
    sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, along: str, lanes: tuple[int, ...]
) -> ms.Skip | None:
    loop, *others = next(it.loops for it in info.iters if it.name == along)
    if others:
        return ms.skip("it computes a partial result at a time")
    at = info.loops.index(loop)
    if info.held[at] > 1:
        return ms.skip("other blocks are in the loop over its partial results")

    def steps(on: ms.Schedule) -> None:
        if at < len(info.loops) - 1:
            first, *rest = on.get_loops(block)[at:]
            on.reorder(*rest, first)
        _vectorize(on, block, lanes)

    return _checked(sch, steps)


def _checked(sch: ms.Schedule, steps: Callable[[ms.Schedule], None]) -> ms.Skip | None:
    """Take steps that are legal; else the reason why they are not."""
    reason = sch.refusal(steps)
    if reason is not None:
        return ms.skip(reason)
    steps(sch)
    return None


def _vectorize(sch: ms.Schedule, block: ms.BlockRV, lanes: tuple[int, ...]) -> None:
    sch.vectorize(sch.get_loops(block)[-1], lanes=sch.sample_categorical(list(lanes), name="lanes"))
    sch.add_fact(block, Vectorized())
