"""Factoring of reductions with little other parallelism."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Factored

import metasched as ms

NONE, INNER, OUTER = "none", "inner", "outer"
LANES = 64  # Partial results side by side, at most.


@ms.rule
def rfactor(sch: ms.Schedule, block: ms.BlockRV, *, max_spatial: int = 512) -> ms.Skip | None:
    """Split a reduction into independent partial results, and reduce those at the end.

    Applies to reductions at least as long as their result is large. Structural choice: `none`; `inner`, where
    neighbouring elements go to different partial results, which the rule `vectorize` puts in vector lanes; `outer`,
    where each partial result takes a contiguous part. The partial results' number is a tile size; parts are up to a
    thread's share long.

    Args:
        max_spatial: the largest result, in elements, whose reduction is factored.
    """
    info = sch.describe(block)
    if not info.reduces or not info.initialises:
        return ms.skip("it is not a reduction")
    if info.once:
        return ms.skip("it depends on constants alone, and is computed once")
    if not info.trivial or sch.facts(block, Factored) is not None:
        return ms.skip("it is scheduled already")
    spatial, reduced = info.size(info.spatial), info.size(info.reduction)
    if spatial is None or reduced is None:
        return ms.skip("its extents depend on tile sizes")
    if spatial > reduced or spatial > max_spatial:
        return ms.skip(f"its result ({spatial} elements) is large enough for its reduction ({reduced})")
    refusals = {how: sch.refusal(partial(_factor, block=block, info=info, how=how)) for how in (INNER, OUTER)}
    if all(refusals.values()):
        return ms.skip(refusals[INNER] or "")
    how = sch.choose("rfactor", [NONE, *(how for how, refusal in refusals.items() if refusal is None)])
    if how != NONE:
        _factor(sch, block, info, how)
    return None


def _factor(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, how: str) -> None:
    loops = sch.get_loops(block)
    rows, reduction = loops[: len(info.spatial)], loops[len(info.spatial) :]
    sch.reorder(*rows, *reduction)
    fused = sch.fuse(*reduction)
    terms = info.size(info.reduction) or 0
    share = terms // sch.target.threads
    longest = max(LANES, share) if how == OUTER else LANES
    outer, inner = sch.split(fused, sch.sample_tile(fused, parts=2, innermost=longest))
    partial = sch.rfactor(inner if how == INNER else outer)
    lanes = sch.describe(partial).spatial[0].name if how == INNER else None
    most = (info.size(info.spatial) or 0) * terms
    sch.add_fact(partial, Factored(lanes, most))
    sch.add_fact(block, Factored(instances=most))
