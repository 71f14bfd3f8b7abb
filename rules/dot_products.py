"""Products of rows by rows in lanes along their terms."""

from __future__ import annotations

import math
from functools import partial

from metasched.rules.consumers import elementwise_consumer, obstacle_to_tiles, reuses
from metasched.rules.facts import Tiled, Vectorized

import metasched as ms

IN_LANES = "in lanes"


@ms.rule
def dot_products(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    lanes: tuple[int, ...] = (8, 16, 32, 64),
    innermost: int = 8,
    shortest: int = 16,
) -> ms.Skip | None:
    """Sum in lanes along the terms, a tile of results at a time, where operands lie along the terms.

    Vectors along the results would gather one number from each row of such an operand, as in a matrix of rows times a
    vector, or transpose it first, which pays only where many results use it. Structural choice: vectors along the
    terms, with a partial result in each lane; or `left alone`, which leaves the block to the other rules. The
    results of a tile share the vectors that they read, and each lane of each is an independent sum; an element-wise
    consumer is computed from each tile.

    Args:
        lanes: the possible widths; those that are no whole vectors of the CPU are left out.
        innermost: the largest tile of results along a dimension.
        shortest: the fewest terms along rows to apply this to.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, shortest)
    if reason is not None:
        return ms.skip(reason)
    steps = partial(_steps, block=block, info=info, lanes=lanes, innermost=innermost)
    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    if sch.choose("sums", [ms.LEFT_ALONE, IN_LANES]) == IN_LANES:
        steps(sch)
    return None


def _steps(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, lanes: tuple[int, ...], innermost: int) -> None:
    loops = sch.get_loops(block)
    results, sums = loops[: len(info.spatial)], loops[len(info.spatial) :]
    tiles = [sch.split(loop, sch.sample_tile(loop, parts=2, innermost=innermost)) for loop in results]
    width = sch.sample_categorical([n for n in lanes if n % sch.target.lanes(info.dtype) == 0], name="lanes")
    *others, along = sums
    vectors, lane = sch.split(along, [None, width])
    outer, inner = [tile[0] for tile in tiles], [tile[1] for tile in tiles]
    outer = [loop for _, loop in sorted(enumerate(outer), key=lambda each: (-_bytes_along(info, each[0]), each[0]))]
    sch.reorder(*outer, *others, vectors, *inner, lane)
    sch.vectorize(lane, lanes=width)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Tiled(tuple(outer)))
    consumer = elementwise_consumer(sch, info)
    if consumer is not None and sch.refusal(lambda on: on.reverse_compute_at(consumer, outer[-1])) is None:
        sch.reverse_compute_at(consumer, outer[-1])


def _bytes_along(info: ms.BlockInfo, place: int) -> int:
    """The bytes of what a loop over results goes through once: the most goes outermost, and comes from memory once."""
    name = info.spatial[place].name
    return sum(math.prod(n or 1 for n in read.shape) * read.dtype.bytes for read in info.reads if name in read.iters)


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, shortest: int) -> str | None:
    reason: str | None = obstacle_to_tiles(sch, block, info)
    if reason is not None:
        return reason
    moving = {it.name for it in info.spatial if it.extent != 1}
    along = info.reduction[-1]
    reads = [read for read in info.reads if along.name in read.iters]
    if not all(along.name in read.uses[-1] for read in reads):
        return "its reduction runs across rows of what it reads"
    if not reuses(info):
        return "it reads every element once for each result, so tiles reuse nothing"
    last = info.spatial[-1].name
    if not any(last in read.iters and not moving & read.uses[-1] for read in reads):
        return "no operand that vectors of results run along lies along the terms"
    if along.extent is not None and along.extent < shortest:
        return f"its rows are so short ({along.extent} terms) that folding lanes would take longer"
    return None
