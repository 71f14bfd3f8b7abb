"""Element-wise blocks over rows of few elements, several rows to a vector."""

from __future__ import annotations

from math import lcm, prod

from metasched.rules.facts import Factored, Tiled, Vectorized
from metasched.rules.tasks import enough_tasks

import metasched as ms

SEVERAL = "several"


@ms.rule
def short_rows(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    most: int = 8,
    rows: tuple[int, ...] = (8, 16, 32),
    lengths: tuple[int, ...] = (512, 2048, 8192),
    tasks: int | None = None,
    lanes: int = 64,
) -> ms.Skip | None:
    """Let vectors go over whole rows of a few elements, such as the colours of a pixel or the coordinates of a point.

    What a row reads beside its own elements, such as its weight or its elements in another order, is near by for all of
    them: it is loaded as vectors and shuffled (`a[n, (i + 1) % 3]`, `m[h, w]` for each of three colours). Where all of
    it lies as the result does, `row_runs` makes vectors that are whole. Whether vectors take several rows is a
    structural choice, how many a random variable. Where few iterations are left outside for threads, rows are cut into
    parts of whole vectors, of which the last is shorter, and whose length is one as well.

    Few operators: those of the library have as many channels as fill vectors; images have three, and points.

    Args:
        most: elements of a row, at most.
        rows: the possible rows of a vector.
        lengths: about how many elements a part has.
        tasks: how many iterations outside are enough for threads; by default four for each, and eight at least.
        lanes: the most lanes that a vector may have.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, most)
    if reason is not None:
        return ms.skip(reason)
    outer, inner = info.spatial[-2:]
    assert outer.extent is not None
    assert inner.extent is not None
    widths = [count * inner.extent for count in rows if count * inner.extent <= lanes]
    if not widths:
        return ms.skip(f"{min(rows)} of its rows ({inner.extent} elements) are more than vectors may have")
    if sch.choose("rows of a vector", [SEVERAL, ms.LEFT_ALONE]) == ms.LEFT_ALONE:
        return None
    fused = sch.fuse(*sch.get_loops(block)[-2:])
    if (info.size(info.iters[:-2]) or 1) < enough_tasks(sch, tasks) and outer.extent * inner.extent > max(lengths):
        _, fused = sch.split(fused, [None, sch.sample_categorical(_whole_lengths(lengths, widths), name="length")])
    sch.vectorize(fused, lanes=sch.sample_categorical(widths, name="lanes"))
    sch.add_fact(block, Vectorized())
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, most: int) -> str | None:
    if info.reduces or not info.trivial:
        return "it is not an element-wise block that nothing has scheduled"
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "its loops are tiles already"
    if len(info.spatial) < 2 or [info.iter_of(loop)[0] for loop in info.loops] != list(info.iters):
        return "its loops are in another order than its variables"
    if info.held[-2] > 1:
        return "there is another block in the loops that would be one"
    outer, inner = info.spatial[-2:]
    if outer.extent is None or inner.extent is None:
        return "its extents depend on tile sizes"
    if not 1 < inner.extent <= most or outer.extent < most:
        return f"it has no rows of 2 to {most} elements"
    if all(_is_alike(read, outer.name, inner) for read in info.reads):
        return "what it reads lies as its result does"
    if not all(reads_near_by(read, outer.name, frozenset({inner.name}), most) for read in info.reads):
        return "what its rows read is apart"
    return None


def _is_alike(read: ms.ReadInfo, outer: str, inner: ms.IterInfo) -> bool:
    unmoved = read.iters.isdisjoint({outer, inner.name})
    return unmoved or (read.bare[-2:] == (outer, inner.name) and read.shape[-1] == inner.extent)


def reads_near_by(read: ms.ReadInfo, outer: str, within: frozenset[str], most: int) -> bool:
    """Whether neighbouring rows read what is near by: an element each, a short row each, or the same small array.

    `within` are the variables of a row: of its elements, and of the terms of each.
    """
    if outer not in read.iters:
        small = prod(size or most**2 + 1 for size in read.shape) <= most**2
        return small or all(within.isdisjoint(use) for use in read.uses[:-1])
    if read.bare[-1] == outer:
        return all(outer not in use and within.isdisjoint(use) for use in read.uses[:-1])
    *others, last = read.uses
    size = read.shape[-1]
    if len(others) < 1 or read.bare[-2] != outer or not last <= within or size is None or size > most:
        return False
    return all(outer not in use and within.isdisjoint(use) for use in others[:-1])


def _whole_lengths(lengths: tuple[int, ...], widths: list[int]) -> list[int]:
    """Lengths of parts in whole vectors of any of the widths: the last part alone is shorter, and has a tail."""
    whole = lcm(*widths)
    return sorted({max(length // whole, 1) * whole for length in lengths})
