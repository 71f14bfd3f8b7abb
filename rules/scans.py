"""Running sums, products and extrema: from element to element, or in blocks that go on from those before them."""

from __future__ import annotations

from functools import partial

from metasched.rules.own_loops import own_loops

import metasched as ms


@ms.rule
def scans(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    sizes: tuple[int, ...] = (8, 16, 32, 64),
    few: int = 64,
    many: int = 1024,
    columns: int = 8,
    widths: tuple[int, ...] = (256, 512, 1024),
) -> ms.Skip | None:
    """Go on from element to element, or take running reductions in blocks: not all terms for each element.

    Applies to reductions of the terms up to an element, or from it on (`sum[k < N if k <= j](X[i, k])`). Where there
    are columns beside the elements (`sum[k < N if k <= i](X[k, j])`), a row of columns goes on from the row before
    (`carry`), in tiles of so many columns, which threads share. Whole numbers of a row that is alone go on from one
    another, too, as a core adds one in a cycle. Floats there are taken in blocks: within a block each element is a
    reduction of its own, and goes on from the blocks before, of which there is a running reduction in turn. Structural
    choice: blocks of so many elements, or each element as it is, where these are not too many.

    Few operators: of those of the library, `cumsum` is one.

    Args:
        sizes: the possible elements of a block.
        few: elements that are not taken in blocks, in the program or over its blocks.
        many: elements of a row from which on they are always taken in blocks.
        columns: the fewest columns for each row to go on from the one before.
        widths: the possible numbers of columns in a tile, besides all.
    """
    info = sch.describe(block)
    if not info.reduces or not info.conditional:
        return ms.skip("it is no reduction whose terms have a condition")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    if _go_on(sch, block, info, columns, widths) or (info.dtype.is_integer and _go_on_alone(sch, block, info)):
        return None
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


def _go_on(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, columns: int, widths: tuple[int, ...]) -> bool:
    """Have each row of columns go on from the one before, if it can; whether it can."""
    width = info.spatial[-1].extent if info.spatial else None
    if width is None or width < columns:
        return False
    tiles = [width, *(narrower for narrower in widths if narrower < width)]
    for at in range(len(info.spatial) - 1):
        steps = partial(_carry, block=block, at=at, widths=tiles)
        if sch.refusal(steps) is None:
            steps(sch)
            return True
    return False


def _go_on_alone(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> bool:
    """Have each element of a row go on from the one before, if it can; whether it can."""

    def steps(on: ms.Schedule, at: int) -> None:
        *elements, terms = own_loops(on, block, info)
        along = elements.pop(at)
        on.reorder(*elements, along, terms)
        on.carry(along)

    for at in reversed(range(len(info.spatial))):
        if sch.refusal(partial(steps, at=at)) is None:
            steps(sch, at)
            return True
    return False


def _carry(sch: ms.Schedule, block: ms.BlockRV, at: int, widths: list[int]) -> None:
    *elements, terms = own_loops(sch, block, sch.describe(block))
    *around, last = elements
    along = around.pop(at)
    tile = []
    if len(widths) > 1:
        first, last = sch.split(last, [None, sch.sample_categorical(widths, name="columns")])
        tile = [first]
    sch.reorder(*around[:at], *tile, along, terms, *around[at:], last)
    sch.carry(along)
