"""Threads over the outermost loops."""

from __future__ import annotations

from functools import partial
from math import prod

from metasched.rules.facts import Factored, SmallNests, Threaded, Tiled

import metasched as ms

PARALLEL, SERIAL = "parallel", "serial"
# How many instances of other blocks take as long as one that calls an expensive function.
_EXPENSIVE = 8
_ORDERED_KINDS = (ms.LoopKind.UNROLLED, ms.LoopKind.CARRIED)


@ms.rule
def parallelize(
    sch: ms.Schedule, block: ms.BlockRV, *, small: int = 1 << 18, tiny: int = 1 << 16, elements: int = 16
) -> ms.Skip | None:
    """Fuse the outermost data-parallel loops of a nest, and run them on all threads.

    For a tiled block, the loops of the outermost level are fused; for any other, all but the innermost, as far as they
    are directly nested and none goes on from iteration to iteration. In a nest of several blocks the tiled one
    determines the loops, else the last, which the others are computed for. How many loops are fused in a nest of tiles
    is a structural choice: all, so that threads have equal shares, or the fewest that go over enough elements for
    threads to share, so that a thread goes through whole rows of tiles. In other nests an iteration is an element, and
    shares are cut finely enough with all. Nests of fewer than `tiny` instances stay serial, as starting threads takes
    longer; of fewer than an eighth where loops inside the shared ones call functions. Where all are of fewer than
    `small`, whether they stay serial is a structural choice, one for the whole program.

    Args:
        small: instances from which a nest is always run on all threads.
        tiny: instances below which a nest always stays serial.
        elements: elements of the result along the loops that are fused, for each thread, from which these are enough.
    """
    info = sch.describe(block)
    if not info.loops:
        return ms.skip("it is in no loop")
    if any(kind is not ms.LoopKind.SERIAL for kind in info.kinds[:1]):
        return ms.skip("its outermost loop has been decided already")
    if sch.facts(block, Threaded) is not None:
        return ms.skip("another rule has decided how its nest runs")
    nest = _nest(sch, info)
    tiled = sch.facts(block, Tiled)
    if tiled is None and (info.name != nest[-1] or any(sch.facts(sch.get_block(name), Tiled) for name in nest)):
        return ms.skip("another block decides how its nest runs")
    direct = sum(held == info.held[0] for held in info.held)
    depth = min(direct, len(tiled.outer) if tiled is not None else _depth(info))
    if depth == 0:
        return ms.skip("its outermost loop is not data-parallel")
    instances = _instances(sch, block)
    # Where none is left inside, what is shared is a loop that vectors are for, and they gain more than threads.
    costly = depth < len(info.loops) and any(sch.describe(sch.get_block(name)).expensive for name in nest)
    if instances is not None and instances * (_EXPENSIVE if costly else 1) < tiny:
        return ms.skip(f"it is so small ({instances} instances) that starting threads would take longer")
    reason = sch.refusal(partial(_share, block=block, depth=depth))
    if reason is not None:
        return ms.skip(reason)
    if _threads(sch, block, small):
        depths = [depth] if tiled is None else _depths(info, depth, elements * sch.target.threads)
        _share(sch, block, sch.choose("depth", depths) if len(depths) > 1 else depth)
    return None


def _share(sch: ms.Schedule, block: ms.BlockRV, depth: int) -> None:
    sch.parallel(sch.fuse(*sch.get_loops(block)[:depth]))


def _nest(sch: ms.Schedule, info: ms.BlockInfo) -> list[str]:
    """The blocks in the block's outermost loop, in program order."""
    names = sch.block_names()
    first = next(n for n, name in enumerate(names) if sch.describe(sch.get_block(name)).loops[:1] == info.loops[:1])
    return list(names[first : first + info.held[0]])


def _instances(sch: ms.Schedule, block: ms.BlockRV) -> int | None:
    """How many instances a block has, at most if it is of partial results; None where that depends on tile sizes."""
    known, factored = sch.describe(block).instances, sch.facts(block, Factored)
    return factored.instances if known is None and factored is not None else known


def _threads(sch: ms.Schedule, block: ms.BlockRV, small: int) -> bool:
    blocks = [sch.get_block(name) for name in sch.block_names()]
    sizes = [_instances(sch, b) for b in blocks]
    if any(size is None or size >= small for size in sizes):
        return True
    # The first block visited chooses for all, as separate choices would multiply the sketches.
    known: SmallNests | None = next((fact for b in blocks if (fact := sch.facts(b, SmallNests)) is not None), None)
    if known is None:
        known = SmallNests(threads=sch.choose("small nests", [PARALLEL, SERIAL]) == PARALLEL)
        sch.add_fact(block, known)
    threads: bool = known.threads
    return threads


def _depths(info: ms.BlockInfo, most: int, enough: int) -> list[int]:
    """How many loops of tiles to fuse: all, or the fewest that go over enough elements."""
    for depth in range(1, most):
        over = {it.name: it.extent for loop in info.loops[:depth] for it in info.iter_of(loop)}
        if prod(extent or 1 for extent in over.values()) >= enough:
            return [most, depth]
    return [most]


def _depth(info: ms.BlockInfo) -> int:
    """How many outermost loops, directly nested, only drive spatial iteration; the innermost is left for vectors, and
    none is unrolled or carried."""
    depth = 0
    loops = list(zip(info.loops, info.kinds, strict=True))
    for loop, kind in loops[:-1] or loops:
        driven = info.iter_of(loop)
        if not driven or any(it.reduces for it in driven) or kind in _ORDERED_KINDS:
            break
        depth += 1
    return depth
