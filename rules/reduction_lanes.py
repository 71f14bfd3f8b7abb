"""Vector lanes along a reduction."""

from __future__ import annotations

from metasched.rules.facts import Vectorized

import metasched as ms


@ms.rule
def reduction_lanes(
    sch: ms.Schedule, block: ms.BlockRV, *, lanes: tuple[int, ...] = (16, 32, 64), shortest: int = 8
) -> ms.Skip | None:
    """Run the innermost loop of a reduction in vector lanes, if it runs along the last dimension of what it reads.

    Sums over rows have no data-parallel loop with contiguous accesses. Each lane accumulates a partial result instead,
    and the lanes are combined at the end of the reduction. The width is a random variable: several vectors of lanes are
    independent accumulators.

    Args:
        lanes: the possible widths.
        shortest: the fewest terms of a reduction to apply this to.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, shortest)
    if reason is not None:
        return ms.skip(reason)

    def steps(on: ms.Schedule) -> None:
        on.vectorize(on.get_loops(block)[-1], lanes=on.sample_categorical(list(lanes), name="lanes"))

    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    steps(sch)
    sch.add_fact(block, Vectorized())
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, shortest: int) -> str | None:
    if not info.reduces:
        return "it is not a reduction"
    if not info.loops:
        return "it is in no loop"
    if sch.facts(block, Vectorized) is not None or ms.LoopKind.VECTORIZED in info.kinds:
        return "it has a vector loop"
    if info.kinds[-1] is not ms.LoopKind.SERIAL:
        return "its innermost loop has been decided already"
    if info.held[-1] > 1:
        return "other blocks are in its innermost loop"
    driven = info.iter_of(info.loops[-1])
    if not driven or not all(it.reduces for it in driven):
        return "its innermost loop does not run along the reduction"
    along = driven[-1].name
    if any(along in read.iters and along not in read.uses[-1] for read in info.reads):
        return "its reduction runs across rows of what it reads"
    terms = info.size(info.reduction)
    if terms is not None and terms < shortest:
        return f"it is so short ({terms} terms) that folding lanes would take longer"
    return None
