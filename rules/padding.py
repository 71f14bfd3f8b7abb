"""Padding as zeros everywhere, and the interior copied over them."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Vectorized

import metasched as ms

DECOMPOSED, COPIED = "decomposed", "copied"


@ms.rule
def padding(sch: ms.Schedule, block: ms.BlockRV, *, vectors: int = 4) -> ms.Skip | None:
    """Write padding row by row: fill the row, then copy its interior, so that no element is compared with a border.

    A structural choice: so, or element by element with a condition. Where the block is computed, and whether it is at
    all, is the variable of `compute_location`. An interior whose last dimension is short, such as three channels, is
    one run of elements with the dimension before it: alone it would fill a part of a vector.

    Args:
        vectors: the fewest vectors along the last dimension for which it stays a loop of its own.
    """
    info = sch.describe(block)
    if info.reduces or not info.conditional:
        return ms.skip("it is no padding")
    if sch.facts(block, Vectorized) is not None:
        return ms.skip("it is in vectors already")
    if not info.held or info.held[-1] > 1:
        return ms.skip("it has no loop of its own")
    steps = partial(_decompose, block=block, vectors=vectors)
    reason = sch.refusal(steps)
    if reason is not None:
        return ms.skip(reason)
    if sch.choose("padding", [DECOMPOSED, COPIED]) == DECOMPOSED:
        steps(sch)
    return None


def _decompose(sch: ms.Schedule, block: ms.BlockRV, vectors: int) -> None:
    """Decompose the padding at the row, the last two loops, as far as they are the block's own."""
    info = sch.describe(block)
    own = [loop for loop, held in zip(sch.get_loops(block), info.held, strict=True) if held == 1]
    sch.decompose_padding(block, own[-2:][0])
    if len(own) > 1 and _is_run(info, vectors * sch.target.lanes(info.dtype)):
        sch.fuse(*sch.get_loops(block)[-2:])


def _is_run(info: ms.BlockInfo, least: int) -> bool:
    """Whether the last two loops go over elements one after another, and the last alone over fewer than `least`."""
    if len(info.spatial) < 2 or len(info.reads) != 1:
        return False
    *_, row, last = info.spatial
    (read,) = info.reads
    whole = last.extent is not None and last.extent < least and last.loops == info.loops[-1:]
    alone = read.uses[-2:] == (frozenset({row.name}), frozenset({last.name})) and read.bare[-1] == last.name
    return whole and alone and info.loops[-2] in row.loops and read.shape[-1] == last.extent
