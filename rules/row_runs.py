"""Loops over what lies in a row, as one."""

from __future__ import annotations

import math

from metasched.rules.facts import Factored, Tiled
from metasched.rules.tasks import enough_tasks

import metasched as ms


@ms.rule
def row_runs(
    sch: ms.Schedule, block: ms.BlockRV, *, lengths: tuple[int, ...] = (512, 2048, 8192), tasks: int | None = None
) -> ms.Skip | None:
    """Fuse innermost loops whose elements lie one after another, where rows alone fill vectors badly.

    64 channels of 7 by 7 pixels are 3136 elements in a row; as rows of 7 they are vectors of which half is masked. It
    is for blocks whose result and operands have these dimensions alike, element-wise ones and reductions over such
    dimensions. Where few iterations are left outside for threads, the run is cut into parts of a length that is a
    random variable. A block that was moved into another's loops has runs of those of its own loops that are whole.

    Args:
        lengths: the possible lengths of a part.
        tasks: how many iterations outside are enough for threads; by default four for each, and eight at least.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info)
    if reason is not None:
        return ms.skip(reason)
    run = _innermost_run(info)
    if len(run) < 2:
        return ms.skip("its rows do not follow one another in memory")
    lanes, row = sch.target.lanes(info.dtype), run[-1].extent or 1
    if row >= 2 * lanes and -(-row // lanes) * lanes <= 1.05 * row:
        return ms.skip(f"its rows ({row} elements) fill vectors")
    fused = sch.fuse(*sch.get_loops(block)[-len(run) :])
    outside = info.size(info.iters[: -len(run)]) or 1
    few = info.trivial and not info.reduces and outside < enough_tasks(sch, tasks)
    if few and (info.size(run) or 0) > max(lengths):
        sch.split(fused, [None, sch.sample_categorical(list(lengths), name="length")])
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> str | None:
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "its loops are tiles already"
    moved = any(held > 1 for held in info.held)
    if moved or not info.trivial:
        return None if moved and _has_whole_rows(info) else "it is scheduled already"
    if [info.iter_of(loop)[0] for loop in info.loops] != list(info.iters):
        return "its loops are in another order than its variables"
    if math.prod(it.extent or 0 for it in info.iters) == 0:
        return "its extents depend on tile sizes"
    return None


def _has_whole_rows(info: ms.BlockInfo) -> bool:
    """Whether the loops of a block's run are its own, and whole; the first may be a part."""
    run = _innermost_run(info)
    count = len(run)
    if info.reduces or [it.loops for it in run] != [(loop,) for loop in info.loops[-count:]]:
        return False
    free = all(kind is ms.LoopKind.SERIAL for kind in info.kinds[-count:]) and set(info.held[-count:]) == {1}
    first, *inner = info.extents[-count:]
    return free and first is not None and inner == [it.extent for it in run[1:]]


def _innermost_run(info: ms.BlockInfo) -> tuple[ms.IterInfo, ...]:
    """The innermost iteration variables over which everything lies one element after another."""
    iters = [it for it in info.iters if it.reduces == info.reduces]
    run = iters[-1:]
    for it in reversed(iters[:-1]):
        if not all(_continues(read, it, run) for read in info.reads):
            break
        run.insert(0, it)
    return tuple(run)


def _continues(read: ms.ReadInfo, it: ms.IterInfo, run: list[ms.IterInfo]) -> bool:
    """Whether the rows over `run` of neighbouring `it` are neighbours in memory; or are all the same element."""
    names = [it.name, *(other.name for other in run)]
    if read.iters.isdisjoint(names) or _counts_through(read, [it, *run]):
        return True
    trailing = len(names)
    alike = list(read.bare[-trailing:]) == names and all(
        extent == other.extent for extent, other in zip(read.shape[-len(run) :], run, strict=True)
    )
    return alike and not any(use & set(names) for use in read.uses[:-trailing])


def _counts_through(read: ms.ReadInfo, run: list[ms.IterInfo]) -> bool:
    """Whether a read's last index is all of a run's variables: `j*3 + c` of a row of pixels and their channels."""
    if not read.uses or read.uses[-1] != {it.name for it in run}:
        return False
    size = math.prod(it.extent or 0 for it in run)
    others = frozenset().union(*read.uses[:-1])
    return read.beside[-1] == {run[-1].name} and read.shape[-1] == size and others.isdisjoint(read.uses[-1])
