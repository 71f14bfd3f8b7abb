"""Factoring of reductions that have little else to run side by side."""

from __future__ import annotations

from metasched.rules.facts import Factored, Vectorized

import metasched as ms

NONE, INNER, OUTER = "none", "inner", "outer"


@ms.rule
def rfactor(
    sch: ms.Schedule, block: ms.BlockRV, *, max_spatial: int = 512, lanes: tuple[int, ...] = (8, 16)
) -> ms.Skip | None:
    """Split a reduction into partial results that do not depend on one another, and reduce those at the end.

    Applies to reductions longer than their result is large. Structural choice: `none`; `inner`, where neighbouring
    elements go to different partial results, in vector lanes; `outer`, where each partial result takes a
    contiguous part. The partial results' number is a tile size.
    """
    info = sch.describe(block)
    if not info.reduces or not info.initialises:
        return ms.skip("it is not a reduction")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    spatial, reduced = info.size(info.spatial), info.size(info.reduction)
    if spatial is None or reduced is None:
        return ms.skip("its extents depend on tile sizes")
    if spatial >= reduced or spatial > max_spatial:
        return ms.skip(f"its result ({spatial} elements) is large enough for its reduction ({reduced})")
    how = sch.choose("rfactor", [NONE, INNER, OUTER])
    if how != NONE:
        _factor(sch, block, info, how, lanes)
    return None


def _factor(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, how: str, lanes: tuple[int, ...]) -> None:
    loops = sch.get_loops(block)
    rows, reduction = loops[: len(info.spatial)], loops[len(info.spatial) :]
    sch.reorder(*rows, *reduction)
    fused = sch.fuse(*reduction)
    outer, inner = sch.split(fused, sch.sample_tile(fused, parts=2))
    partial = sch.rfactor(inner if how == INNER else outer)
    sch.note(partial, Factored())
    sch.note(block, Factored())
    if how == INNER:
        sch.vectorize(sch.get_loops(partial)[-1], lanes=sch.sample_categorical(list(lanes), name="lanes"))
        sch.note(partial, Vectorized())
