"""Long rows in parts, which threads share."""

from __future__ import annotations

from metasched.rules.tasks import enough_tasks

import metasched as ms


@ms.rule
def long_rows(
    sch: ms.Schedule, block: ms.BlockRV, *, tasks: int | None = None, longest: int = 1 << 16, tiny: int = 1 << 16
) -> ms.Skip | None:
    """Cut the innermost loop of element-wise blocks into parts, where few iterations are outside it for threads.

    One loop cannot run on threads and in vector lanes at once: the sum of two vectors, or a softmax of one row, would
    do without one of them. The parts' length is a random variable, half of the time whole lines of vectors.

    Args:
        tasks: how many iterations outside are enough for threads; by default four for each, and eight at least.
        longest: the most elements of a part.
        tiny: instances below which threads take longer to start than they gain.
    """
    info = sch.describe(block)
    if info.reduces:
        return ms.skip("it is a reduction")
    if not info.trivial or any(held > 1 for held in info.held):
        return ms.skip("it is scheduled already")
    if not info.spatial or info.iter_of(info.loops[-1]) != info.spatial[-1:]:
        return ms.skip("its innermost loop does not run along the last dimension")
    outside, row = info.size(info.spatial[:-1]), info.spatial[-1].extent
    if outside is None or row is None:
        return ms.skip("its extents depend on tile sizes")
    if outside >= enough_tasks(sch, tasks):
        return ms.skip(f"{outside} iterations outside are enough for threads")
    if outside * row < tiny:
        return ms.skip(f"it is so small ({outside * row} instances) that starting threads would take longer")
    loop = sch.get_loops(block)[-1]
    sch.split(loop, sch.sample_tile(loop, parts=2, innermost=longest, step=4 * sch.target.lanes(info.dtype)))
    return None
