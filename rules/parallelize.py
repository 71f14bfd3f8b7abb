"""Threads over the outermost loops."""

from __future__ import annotations

from metasched.rules.facts import Tiled

import metasched as ms


@ms.rule
def parallelize(sch: ms.Schedule, block: ms.BlockRV, *, small: int = 1 << 18, tiny: int = 1 << 16) -> ms.Skip | None:
    """Fuse the outermost data-parallel loops of a nest, and run them on all threads.

    Structural choice: how many loops are fused. A tiled block fuses the loops of its outermost level, another one all
    but its innermost, as far as they are nested directly. Nests of fewer than `small` instances may also stay
    serial, as starting threads takes longer; those of fewer than `tiny` always do.
    """
    info = sch.describe(block)
    if not info.loops:
        return ms.skip("it is in no loop")
    if any(kind is not ms.LoopKind.SERIAL for kind in info.kinds[:1]):
        return ms.skip("its outermost loop has been decided already")
    tiled = sch.facts(block, Tiled)
    direct = sum(held == info.held[0] for held in info.held)
    depth = min(direct, len(tiled.outer) if tiled is not None else _depth(info))
    if depth == 0:
        return ms.skip("its outermost loop is not data-parallel")
    if tiled is None and info.held[0] > 1:
        return ms.skip("another block decides how its nest runs")
    fused = sch.choose("parallel", _options(info, depth, small, tiny))
    if fused:
        sch.parallel(sch.fuse(*sch.get_loops(block)[:fused]))
    return None


def _options(info: ms.BlockInfo, depth: int, small: int, tiny: int) -> list[int]:
    if info.instances is None or info.instances >= small:
        return [depth]
    return [0] if info.instances < tiny else [depth, 0]


def _depth(info: ms.BlockInfo) -> int:
    """How many outermost loops, directly nested, only drive spatial iteration; the innermost is left for vectors."""
    depth = 0
    for loop in info.loops[:-1] or info.loops:
        driven = info.iter_of(loop)
        if not driven or any(it.reduces for it in driven):
            break
        depth += 1
    return depth
