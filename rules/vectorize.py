"""Vector lanes along the innermost loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from metasched.rules.facts import Factored, InRuns, Vectorized

import metasched as ms

WRITTEN, READ = "along what is written", "along what is read"
SELDOM = 0.05  # How likely elements under a condition are taken one by one.


@ms.rule
def vectorize(sch: ms.Schedule, block: ms.BlockRV, *, lanes: tuple[int, ...] = (8, 16, 32)) -> ms.Skip | None:
    """Run the innermost loop, where it is data-parallel and the block is alone in it, in vector lanes.

    Loops of one iteration inside it are first moved outside: rows of 1 x 672 x 1 x 1 elements have 672. For contiguous
    partial results, the loop over them is first moved innermost. The width is a random variable.

    A block that divides or calls a math function may also take twice the widest: that is a chain of dependent
    instructions, and interleaving several vectors hides their latency. So may one whose rows are cut into runs. A block
    with a condition may take its elements one by one, so that only those that meet it are read. So may one whose loop
    fills at most half of the narrowest vector, such as that over the colours of a pixel, so that no lanes are masked.

    A block that transposes what others read has the elements of a vector apart in memory either where it reads or where
    it writes: which of the two is a structural choice.

    Args:
        lanes: what the width may be.
    """
    if not lanes:
        return ms.skip("no width is given")
    info = sch.describe(block)
    if info.expensive or info.costly or sch.facts(block, InRuns) is not None:
        lanes = (*lanes, 2 * max(lanes))
    if sch.facts(block, Vectorized) is not None:
        return ms.skip("it has a vector loop")
    if not info.loops:
        return ms.skip("it is in no loop")
    if ms.LoopKind.VECTORIZED in info.kinds:
        return ms.skip("a loop around it is vectorized")
    if info.held[-1] > 1:
        return ms.skip("other blocks are in its innermost loop")
    at = _longest_inside(info)
    driven = info.iter_of(info.loops[at])
    if info.kinds[-1] is not ms.LoopKind.SERIAL:
        return ms.skip("its innermost loop has been decided already")
    factored = sch.facts(block, Factored)
    if factored is not None and factored.lanes is not None:
        return _partial_results(sch, block, info, factored.lanes, lanes)
    if not driven or any(it.reduces for it in driven):
        return ms.skip("its innermost loop runs along the reduction")
    if info.spatial and driven[-1].name != _last_dimension(info):
        return ms.skip("its innermost loop does not run along the last dimension")
    ways = {WRITTEN: partial(_vectorize_from, block=block, lanes=lanes, at=at)}
    read = _row_read(info)
    if read is not None:
        ways[READ] = partial(_vectorize_from, block=block, lanes=lanes, at=read)
    legal = [how for how, steps in ways.items() if sch.refusal(steps) is None]
    return _try_steps(sch, ways[sch.choose("vectors", legal) if len(legal) > 1 else next(iter(legal), WRITTEN)])


def _longest_inside(info: ms.BlockInfo) -> int:
    """The place of the innermost loop that has more than one iteration, where the block is alone in what is inside."""
    for at in reversed(range(len(info.loops))):
        if info.kinds[at] is not ms.LoopKind.SERIAL or info.held[at] > 1:
            break
        if info.extents[at] != 1:
            return at
    return len(info.loops) - 1


def _last_dimension(info: ms.BlockInfo) -> str:
    """The iteration variable of the last dimension that has more than one element."""
    long = [it.name for it in info.spatial if it.extent != 1]
    return long[-1] if long else info.spatial[-1].name


def _partial_results(
    sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, along: str, lanes: tuple[int, ...]
) -> ms.Skip | None:
    loop, *others = next(it.loops for it in info.iters if it.name == along)
    if others:
        return ms.skip("it computes a partial result at a time")
    at = info.loops.index(loop)
    if info.held[at] > 1:
        return ms.skip("other blocks are in the loop over its partial results")

    return _try_steps(sch, partial(_vectorize_from, block=block, lanes=lanes, at=at))


def _row_read(info: ms.BlockInfo) -> int | None:
    """The place of the loop along which a block reads rows for others to read as columns; None where it has none."""
    rows = {read.bare[-1] for read in info.reads if read.bare}
    loops = next((it.loops for it in info.spatial[:-1] if rows == {it.name}), ())
    if not loops or not info.readers:
        return None
    at = info.loops.index(loops[-1])
    free = all(kind is ms.LoopKind.SERIAL for kind in info.kinds[at:]) and all(held == 1 for held in info.held[at:])
    return at if free and info.extents[at] != 1 else None


def _try_steps(sch: ms.Schedule, steps: Callable[[ms.Schedule], None]) -> ms.Skip | None:
    """Take steps that are legal; else the reason why they are not."""
    reason = sch.refusal(steps)
    if reason is not None:
        return ms.skip(reason)
    steps(sch)
    return None


def _vectorize_from(sch: ms.Schedule, block: ms.BlockRV, lanes: tuple[int, ...], at: int) -> None:
    """Move the loop at a place innermost, and vectorise it."""
    first, *rest = sch.get_loops(block)[at:]
    if rest:
        sch.reorder(*rest, first)
    _vectorize(sch, block, lanes)


def _vectorize(sch: ms.Schedule, block: ms.BlockRV, lanes: tuple[int, ...]) -> None:
    info = sch.describe(block)
    extent = info.extents[-1]
    if extent is not None and 1 < extent <= min(lanes) // 2:  # all widths make the same code there
        width = sch.sample_categorical([*lanes, 1], name="lanes")
    elif not info.conditional:
        width = sch.sample_categorical(list(lanes), name="lanes")
    else:
        likely = [(1 - SELDOM) / len(lanes)] * len(lanes)
        width = sch.sample_categorical([*lanes, 1], probabilities=[*likely, SELDOM], name="lanes")
    sch.vectorize(sch.get_loops(block)[-1], lanes=width)
    sch.add_fact(block, Vectorized())
