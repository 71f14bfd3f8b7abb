"""Neighbouring columns innermost in a reduction across rows."""

from __future__ import annotations

from metasched.rules.facts import Factored, Tiled

import metasched as ms


@ms.rule
def columns(
    sch: ms.Schedule, block: ms.BlockRV, *, widths: tuple[int, ...] = (16, 64, 256), fewest: int = 2, short: int = 4
) -> ms.Skip | None:
    """Reduce a tile of contiguous columns at a time in a reduction across rows or windows, for `vectorize`.

    A loop over columns around one over rows reads with a large stride, and one around a window along the row, as in
    pooling, is no loop for vectors. Instead, a tile of columns goes innermost, with a result for each; the outer loop
    over columns stays outside, for threads. Rows of a few elements that are each reduced, such as a pixel's colours,
    are columns as well: those of neighbours lie so near that they are loaded as vectors and shuffled.

    Args:
        widths: the possible numbers of columns in a tile; the choice is a random variable.
        fewest: the smallest number of columns to apply this to.
        short: elements of a row that is reduced, at most.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, fewest, short)
    if reason is not None:
        return ms.skip(reason)
    at = info.loops.index(info.spatial[-1].loops[0])

    def steps(on: ms.Schedule) -> None:
        first, *rows = on.get_loops(block)[at:]
        outer, run = on.split(first, [None, on.sample_categorical(list(widths), name="columns")])
        on.reorder(outer, *rows, run)

    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    steps(sch)
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, fewest: int, short: int) -> str | None:
    if not info.reduces:
        return "it is not a reduction"
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "its loops are tiles already"
    if not info.spatial or len(info.spatial[-1].loops) != 1:
        return "it has no loop over columns"
    last, terms = info.spatial[-1], {it.name for it in info.reduction}
    at = info.loops.index(last.loops[0])
    if any(kind is not ms.LoopKind.SERIAL for kind in info.kinds[at:]):
        return "its loops have been decided already"
    inside = [it for loop in info.loops[at + 1 :] for it in info.iter_of(loop)]
    if not inside or not all(it.reduces for it in inside):
        return "no loop over rows is inside that over columns"
    if any(held > 1 for held in info.held[at:]):
        return "other blocks are in its loop over columns"
    across = [read for read in info.reads if not terms.isdisjoint(read.iters)]
    if not all(last.name in read.uses[-1] or _is_short_row(read, last.name, terms, short) for read in across):
        return "what it reduces does not lie along its last dimension"
    found = info.size((last,))
    if found is not None and found < fewest:
        return f"it has so few columns ({found})"
    return None


def _is_short_row(read: ms.ReadInfo, last: str, terms: set[str], short: int) -> bool:
    """Whether a read is of a row of few elements for each column."""
    size = read.shape[-1]
    if len(read.uses) < 2 or size is None or size > short:
        return False
    others = frozenset().union(*read.uses[:-2])
    return read.bare[-2] == last and read.uses[-1] <= terms and last not in others
