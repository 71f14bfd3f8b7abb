"""Sampled compute locations of producers that are still at the root, and of what follows tiles."""

from __future__ import annotations

from metasched.rules.consumers import has_same_elements
from metasched.rules.facts import Factored, Placed, Strip, Tiled

import metasched as ms


@ms.rule
def compute_location(sch: ms.Schedule, block: ms.BlockRV, *, smallest: int = 1 << 12) -> ms.Skip | None:
    """Compute a block at a sampled location: at the root, inlined, or under a loop of its reader or of what it reads.

    Producers move to their reader, untiled reductions as well: for example one over a row to the loop that uses the
    row. Outputs move to the tiles of the reduction that they read, if `multi_level_tiling` has no place for them:
    several blocks that read one result can all be computed while a tile of it is in the nearest cache, and so can those
    that write another shape than they read, such as heads of an attention that are split and transposed.

    Args:
        smallest: the fewest elements of an output for which its place can matter.
    """
    info = sch.describe(block)
    if info.output or not info.readers:
        return _follow(sch, block, info, smallest)
    if info.reduces and info.once:
        return ms.skip("it depends on constants alone, and is computed once, where it is")
    if sch.facts(block, Placed) is not None:
        return ms.skip("it was placed when it was made")
    if sch.facts(block, Tiled) is not None:
        return ms.skip("it is tiled; its consumer may move to it")
    moves = sch.facts(block, Factored) is not None or (info.conditional and sch.facts(block, Strip) is not None)
    if not info.trivial and not moves:
        return ms.skip("it is scheduled already")
    sch.compute_at(block, sch.sample_compute_location(block))
    return None


def _follow(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, smallest: int) -> ms.Skip | None:
    """Compute an output at a sampled place of the tiles that it reads."""
    tiled = [source for source in map(sch.get_block, info.sources) if _is_open(sch, source, info)]
    if info.reduces or not info.trivial or not tiled:
        return ms.skip("it writes an output")
    if (info.size(info.spatial) or smallest) < smallest:
        return ms.skip(f"it writes an output of only {info.size(info.spatial)} elements")
    sch.reverse_compute_at(block, sch.sample_compute_location(block, tiled[-1]))
    return None


def _is_open(sch: ms.Schedule, source: ms.BlockRV, reader: ms.BlockInfo) -> bool:
    """Whether a source is tiled, and `multi_level_tiling` had no place for what reads it."""
    tiled = sch.facts(source, Tiled)
    if tiled is None or tiled.terms is None:
        return False
    info = sch.describe(source)
    return len(info.readers) > 1 or info.output or not has_same_elements(reader, info)
