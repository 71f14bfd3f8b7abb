"""Padding as zeros everywhere, and the interior copied over them."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Vectorized

import metasched as ms

DECOMPOSED, COPIED = "decomposed", "copied"


@ms.rule
def padding(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Write padding row by row: fill the row, then copy its interior, so that no element is compared with a border.

    A structural choice: so, or element by element with a condition. Where the block is computed, and whether it is at
    all, is the variable of `compute_location`.
    """
    info = sch.describe(block)
    if info.reduces or not info.conditional:
        return ms.skip("it is no padding")
    if sch.facts(block, Vectorized) is not None:
        return ms.skip("it is in vectors already")
    if not info.held or info.held[-1] > 1:
        return ms.skip("it has no loop of its own")
    reason = sch.refusal(partial(_decompose, block=block))
    if reason is not None:
        return ms.skip(reason)
    if sch.choose("padding", [DECOMPOSED, COPIED]) == DECOMPOSED:
        _decompose(sch, block)
    return None


def _decompose(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """In the row, the last two loops, as far as they are the block's own."""
    info = sch.describe(block)
    own = [loop for loop, held in zip(sch.get_loops(block), info.held, strict=True) if held == 1]
    sch.decompose_padding(block, own[-2:][0])
