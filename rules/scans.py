"""Running sums, products and extrema, in blocks that go on from those before them."""

from __future__ import annotations

from functools import partial

import metasched as ms


@ms.rule
def scans(
    sch: ms.Schedule, block: ms.BlockRV, *, sizes: tuple[int, ...] = (8, 16, 32, 64), few: int = 64, many: int = 1024
) -> ms.Skip | None:
    """Take running reductions in blocks: N terms for each block of N elements, not for each element.

    Applies to reductions of the terms up to an element, or from it on (`sum[k < N if k <= j](X[i, k])`). Within a block
    each element is a reduction of its own, and goes on from the blocks before, of which there is a running reduction in
    turn. Structural choice: blocks of so many elements, or each element as it is, where these are not too many.

    Few operators: of those of the library, `cumsum` is one.

    Args:
        sizes: the possible elements of a block.
        few: elements that are not taken in blocks, in the program or over its blocks.
        many: elements of a row from which on they are always taken in blocks.
    """
    info = sch.describe(block)
    if not info.reduces or not info.conditional:
        return ms.skip("it is no reduction whose terms have a condition")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    terms = info.size(info.reduction)
    if terms is None:
        return ms.skip("its extents depend on tile sizes")
    if terms <= few:
        return ms.skip(f"its rows are short ({terms} elements)")
    options = {f"of {size}": partial(_scan_blocks, block=block, elements=terms, size=size, few=few) for size in sizes}
    refusals = {how: sch.refusal(steps) for how, steps in options.items()}
    legal = [how for how, reason in refusals.items() if reason is None]
    if not legal:
        return ms.skip(next(iter(refusals.values()), None) or "no size of a block is given")
    how = sch.choose("blocks", [*legal, *([ms.LEFT_ALONE] if terms < many else [])])
    if how != ms.LEFT_ALONE:
        options[how](sch)
    return None


def _scan_blocks(sch: ms.Schedule, block: ms.BlockRV, elements: int, size: int, few: int) -> None:
    while elements > few:
        block = sch.decompose_scan(block, size)
        elements = -(-elements // size)
