"""Lines asked for before they are read."""

from __future__ import annotations

import math
from functools import partial

from metasched.rules.facts import InRuns, Tiled, Vectorized

import metasched as ms

UNUSED = 0.75  # How likely nothing is asked for: a chain of blocks has one that pays, where any does.


@ms.rule
def prefetch(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    runs: tuple[int, ...] = (64, 128, 256),
    distances: tuple[int, ...] = (4, 6, 8, 16, 32),
    unrolled: int = 64,
    cache: int | None = None,
) -> ms.Skip | None:
    """Ask for what a loop reads some iterations later, where memory sets the pace.

    Applies to blocks that go along rows of what no cache of a core's own holds: element-wise ones and sums of rows. A
    row is cut into runs of vectors, and while one is computed, the one so many runs on is asked for, which may be of
    the row after. Copies of such operands, whose rows lie a page apart, ask for rows instead. Length and distance are
    random variables; one length is the whole row, and one distance of rows is none.

    Args:
        runs: the elements that a run may have, besides the whole row.
        distances: how many runs or rows ahead to ask.
        unrolled: the elements up to which the vectors of a run may be unrolled, in blocks of few instructions; others
            have wider vectors for that.
        cache: bytes of the largest cache that a core has for itself; by default the target's second.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, sch.target.l2 if cache is None else cache)
    if not distances:
        reason = "no distance is given"
    if reason is not None:
        return ms.skip(reason)
    if info.kinds[-1] is ms.LoopKind.VECTORIZED:
        row = None if info.reduces or len(info.reads) > 1 else _row_loop(info)
        if row is None:
            return ms.skip("it is in vectors already, and no copy of rows")
        steps = partial(_prefetch_rows, block=block, row=row, distances=distances)
    elif info.kinds[-1] is ms.LoopKind.SERIAL and sch.facts(block, Vectorized) is None:
        if not runs:
            return ms.skip("no length of a run is given")
        length = info.iter_of(info.loops[-1])[-1].extent
        if length is None or length <= 2 * max(runs):
            return ms.skip(f"its rows ({length} elements) are short")
        limit = 0 if info.reduces or info.expensive or info.costly else unrolled
        steps = partial(_prefetch_runs, block=block, runs=(length, *runs), distances=distances, unrolled=limit)
    else:
        return ms.skip("its innermost loop has been decided already")
    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    steps(sch)
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, cache: int) -> str | None:
    if sch.facts(block, Tiled) is not None:
        return "it is tiled, and its operands are read again and again"
    if not info.loops or info.held[-1] > 1:
        return "it has no loop of its own"
    driven = info.iter_of(info.loops[-1])
    if len(driven) != 1:
        return "its innermost loop does not run along one dimension"
    along = driven[-1].name
    arguments = {argument.name for argument in sch.program.inputs}
    read = [
        x
        for x in info.reads
        if x.buffer in arguments and x.uses and along in x.uses[-1] and not any(along in use for use in x.uses[:-1])
    ]
    if not read:
        return "it reads no argument along its innermost loop"
    if not any(_bytes(x) > cache for x in read):
        return "a cache of the core holds what it reads along its innermost loop"
    return None


def _bytes(read: ms.ReadInfo) -> int:
    return read.dtype.bytes * math.prod(extent or 1 for extent in read.shape)


def _prefetch_runs(
    sch: ms.Schedule, block: ms.BlockRV, runs: tuple[int, ...], distances: tuple[int, ...], unrolled: int
) -> None:
    length = sch.sample_categorical(list(runs), probabilities=_run_probabilities(runs), name="run")
    run, inside = sch.split(sch.get_loops(block)[-1], [None, length])
    sch.annotate(run, "prefetch", sch.sample_categorical(list(distances), name="ahead"))
    sch.add_fact(block, InRuns())
    if unrolled:
        sch.annotate(inside, "unroll_limit", sch.sample_categorical([0, unrolled], name="unrolled"))


def _run_probabilities(values: tuple[int, ...]) -> list[float]:
    """The probabilities of values of which the first asks for nothing."""
    others = len(values) - 1
    return [UNUSED, *([(1 - UNUSED) / others] * others)]


def _row_loop(info: ms.BlockInfo) -> int | None:
    """The place of the innermost loop that does not go along rows."""
    (along,) = info.iter_of(info.loops[-1])
    return next((n for n, name in reversed(list(enumerate(info.loops))) if name not in along.loops), None)


def _prefetch_rows(sch: ms.Schedule, block: ms.BlockRV, row: int, distances: tuple[int, ...]) -> None:
    offered = (0, *distances)
    ahead = sch.sample_categorical(list(offered), probabilities=_run_probabilities(offered), name="ahead")
    sch.annotate(sch.get_loops(block)[row], "prefetch", ahead)
