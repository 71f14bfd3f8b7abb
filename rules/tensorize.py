"""Tensor intrinsics: tiles around an instruction, with operands packed as it takes them."""

from __future__ import annotations

from functools import partial

from metasched.rules.consumers import obstacle_to_tiles
from metasched.rules.facts import Tiled, Vectorized
from metasched.rules.tensor_operands import fits_of, obstacle_to_fit
from metasched.rules.tensor_tiles import Largest, Level, tile

import metasched as ms

UNUSED, UNFUSED = "none", "none"


@ms.rule
def tensorize(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    intrinsics: tuple[str, ...] = (),
    rows: tuple[int, ...] = (4, 4),
    columns: int = 4,
    steps: int = 4,
    most_padding: float = 4.0,
    fuse_after: tuple[int, ...] = (2, 1),
) -> ms.Skip | None:
    """Compute a sum of products with a tensor intrinsic, in tiles of several uses.

    The block's variables are matched with the intrinsic's axes by which operands they index, whatever their order:
    matmuls of any layout, batches, convolutions. Extents are padded, and operands packed, where the instruction needs
    it: what a copy reads is computed in it, and copies of constant arguments are made ahead of calls. Around the
    instruction is a tile of accumulators, unrolled; around that the reduction; and around that two levels of tiles,
    whose sizes are random variables. Structural choices: whether to use the intrinsic; and under which level its
    consumer, or the copy of its result, is computed.

    Args:
        intrinsics: names of the intrinsics to try.
        rows: the largest numbers of rows of uses (of rows, for an instruction without) in a tile of accumulators: along
            the block's last variable of rows, the one before that, and so on.
        columns: the largest number of columns of uses in it.
        steps: the largest number of steps of the reduction that are unrolled.
        most_padding: how many times as much as needed may be computed.
        fuse_after: the levels, counted from 1, under which the consumer may be.
    """
    info = sch.describe(block)
    reason = obstacle_to_tiles(sch, block, info)
    if reason is not None:
        return ms.skip(reason)
    try:
        fit = fits_of(sch, block, intrinsics)[0]
    except ms.ScheduleError as error:
        return ms.skip(error.message)
    reason = obstacle_to_fit(sch, block, fit, most_padding)
    if reason is not None:
        return ms.skip(reason)
    steps_of = partial(tile, block=block, fit=fit, largest=Largest(rows, columns, steps))
    refusal = sch.refusal(steps_of)
    if refusal is not None:
        return ms.skip(f"`{fit.intrinsic.name}` cannot be used: {refusal}")
    if sch.choose("intrinsic", [fit.intrinsic.name, UNUSED]) == UNUSED:
        return None
    levels = steps_of(sch)
    sch.add_fact(block, Tiled(tuple(levels[0])))
    sch.add_fact(block, Vectorized())
    _fuse(sch, block, levels, fuse_after)
    return None


def _fuse(sch: ms.Schedule, block: ms.BlockRV, levels: list[Level], after: tuple[int, ...]) -> None:
    """Compute the only consumer, if it is no reduction, under one of the levels where that is legal."""
    readers = [sch.get_block(name) for name in sch.describe(block).readers]
    if len(readers) != 1 or sch.describe(readers[0]).reduces or not sch.describe(readers[0]).trivial:
        return

    def steps(level: int, on: ms.Schedule) -> None:
        on.reverse_compute_at(readers[0], levels[level - 1][-1])

    there = [level for level in after if 0 < level <= len(levels) and levels[level - 1]]
    legal = [level for level in there if sch.refusal(partial(steps, level)) is None]
    how = sch.choose("fusion", [*(f"level {level}" for level in legal), UNFUSED]) if legal else UNFUSED
    if how != UNFUSED:
        steps(int(how.removeprefix("level ")), sch)
