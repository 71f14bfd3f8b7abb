"""Sums of exponentials over long rows, part by part."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Factored, Placed
from metasched.rules.tasks import enough_tasks

import metasched as ms

ONE_PASS = "one pass"


@ms.rule
def row_parts(
    sch: ms.Schedule, block: ms.BlockRV, *, tasks: int | None = None, longest: int = 1 << 16, tiny: int = 1 << 16
) -> ms.Skip | None:
    """Sum exponentials over the parts of a long row, each relative to the maximum of its part, in one pass.

    Applies to a sum of exponentials relative to a row's maximum, such as those of softmax and its relatives, of so few
    rows that threads share them, or of rows that the second cache does not hold. A part's maximum and sum are computed
    together, on one thread and while the part is near; what else reads the exponentials computes them again. Structural
    choice: that, or both reductions are left to other rules. The length of parts is a tile size.

    Few operators: the others have no exponentials, or are left to `row_chain`, as rows are many or short.

    Args:
        tasks: how many rows are enough for threads; by default four for each, and eight at least.
        longest: the most elements of a part.
        tiny: elements of all rows below which threads take longer to start than they gain.
    """
    info = sch.describe(block)
    if not info.reduces or not info.initialises or info.compares:
        return ms.skip("it is no sum")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    if sum(it.extent != 1 for it in info.reduction) > 1:
        return ms.skip("it sums over several dimensions")
    rows, row = info.size(info.spatial), info.size(info.reduction)
    if rows is None or row is None:
        return ms.skip("its extents depend on tile sizes")
    if rows >= enough_tasks(sch, tasks) and row * info.dtype.bytes <= sch.target.l2:
        return ms.skip(f"{rows} rows that fit in the second cache are enough for threads")
    if rows * row < tiny:
        return ms.skip(f"it is so small ({rows * row} elements) that starting threads would take longer")
    exponentials = _relative_blocks(sch, info, set())
    if not exponentials:
        return ms.skip("its terms are relative to no maximum")
    steps = partial(_compute_in_one_pass, block=block, exponentials=exponentials, longest=longest)
    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    if sch.choose("parts", [ms.LEFT_ALONE, ONE_PASS]) == ONE_PASS:
        steps(sch)
    return None


def _relative_blocks(sch: ms.Schedule, info: ms.BlockInfo, seen: set[str]) -> tuple[str, ...]:
    """The element-wise blocks between a maximum and a sum, last first, and the maximum at the end; none without one.

    `seen` are the blocks looked at, none of which leads to one.
    """
    for name in info.sources:
        if name in seen:
            continue
        seen.add(name)
        source = sch.describe(sch.get_block(name))
        if source.reduces and source.compares and not source.positions and source.trivial:
            return (name,)
        if source.elementwise and not source.output and source.trivial:
            found = _relative_blocks(sch, source, seen)
            if found:
                return (name, *found)
    return ()


def _compute_in_one_pass(sch: ms.Schedule, block: ms.BlockRV, exponentials: tuple[str, ...], longest: int) -> None:
    *between, top = exponentials
    for name in between:
        sch.compute_inline(sch.get_block(name))
    maximum = sch.get_block(top)
    along = sch.get_loops(maximum)[-1]
    tile = sch.sample_tile(along, parts=2, innermost=longest)
    maxima, sums = (_factor_partial(sch, each, tile) for each in (maximum, block))
    sch.use_partial_maxima(sums, maxima)
    sch.reverse_compute_at(sums, sch.get_loops(maxima)[-2])
    for each in (maxima, sums):
        sch.add_fact(each, Placed())


def _factor_partial(sch: ms.Schedule, block: ms.BlockRV, tile: list[ms.Int]) -> ms.BlockRV:
    """Partial results of a reduction along its last loop."""
    info = sch.describe(block)
    outer, _ = sch.split(sch.get_loops(block)[-1], tile)
    partial_results: ms.BlockRV = sch.rfactor(outer)
    for each in (partial_results, block):
        sch.add_fact(each, Factored(instances=info.instances))
    return partial_results
