"""Sums of few terms for rows of few elements, several rows to a vector."""

from __future__ import annotations

from math import prod

from metasched.rules.facts import Factored, Placed, Tiled, Vectorized
from metasched.rules.short_rows import SEVERAL, reads_near_by

import metasched as ms

# Rows that vectors have room for, for each row that there is, up to which tails cost less than following saves.
_MOST_ROOM = 1.25
# Terms of a row from which on lanes along it are folded: fewer are not reduced so.
_FEWEST_TERMS = 4


@ms.rule
def short_sums(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    most: int = 8,
    terms: int = 16,
    rows: tuple[int, ...] = (8, 16, 32),
    lanes: int = 64,
    row_terms: int = 40,
) -> ms.Skip | None:
    """Let vectors go over whole rows of a few elements, each of which is a sum of few terms.

    So it is where a small matrix is applied to each of many points or pixels: as tiles, its results would fill a part
    of a vector. What a row sums lies near by, and is loaded as vectors and shuffled; the matrix is a pattern that all
    vectors share. The terms are unrolled. An element-wise block that alone reads the sums follows in the same vectors,
    where these are whole or nearly all of them. So it is, too, where short rows are reduced to an element each, such as
    the largest of ten scores: lanes along a row would be folded for each. Whether vectors take several rows is a
    structural choice, how many a random variable.

    Few operators: those of the library sum over more than a vector has.

    Args:
        most: elements of a row, at most.
        terms: terms of a sum, at most.
        rows: the possible rows of a vector.
        lanes: the most lanes that a vector may have.
        row_terms: terms of a row that is reduced to an element, at most.
    """
    info = sch.describe(block)
    if _reduces_rows(sch, block, info, most, row_terms):
        if sch.choose("rows of a vector", [SEVERAL, ms.LEFT_ALONE]) == SEVERAL:
            _reduce_rows(sch, block, info, rows)
        return None
    reason = _find_obstacle(sch, block, info, most, terms)
    if reason is not None:
        return ms.skip(reason)
    outer, inner = info.spatial[-2:]
    assert outer.extent is not None
    assert inner.extent is not None
    counts = [count for count in rows if count * inner.extent <= lanes]
    if not counts:
        return ms.skip(f"{min(rows)} of its rows ({inner.extent} elements) are more than vectors may have")
    if sch.choose("rows of a vector", [SEVERAL, ms.LEFT_ALONE]) == ms.LEFT_ALONE:
        return None
    filling = [count for count in counts if _fills(outer.extent, count)]
    follower = _follower(sch, info) if filling else None
    count = sch.sample_categorical(counts if follower is None else filling, name="rows")
    along, within, *summed = sch.get_loops(block)[len(info.spatial) - 2 :]
    if follower is not None:
        around, along = sch.split(along, [None, count])
        sch.reverse_compute_at(follower, around)
        sch.add_fact(follower, Placed())
        *_, its_rows, its_elements = sch.get_loops(follower)
        _vectorize(sch, follower, its_rows, its_elements, count * inner.extent)
    for loop in summed:
        sch.unroll(loop)
    _vectorize(sch, block, along, within, count * inner.extent)
    return None


def _reduces_rows(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, most: int, terms: int) -> bool:
    """Whether short rows that lie one after another are reduced to an element each, and nothing has scheduled that."""
    if not info.reduces or not info.trivial or not info.spatial or info.places:
        return False
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return False
    count = prod(it.extent or terms + 1 for it in info.reduction)
    outer = info.spatial[-1]
    within = frozenset(it.name for it in info.reduction)
    return (
        list(info.iters) == [*info.spatial, *info.reduction]
        and _FEWEST_TERMS <= count <= terms
        and (outer.extent or 0) >= most * _FEWEST_TERMS
        and any(outer.name in read.iters for read in info.reads)
        and all(_ends_in_row(read, outer.name, within, terms) for read in info.reads)
    )


def _ends_in_row(read: ms.ReadInfo, outer: str, within: frozenset[str], terms: int) -> bool:
    """Whether neighbouring rows read rows that are neighbours, of few elements, or the same of them."""
    return bool(read.uses) and read.uses[-1] == within and reads_near_by(read, outer, within, terms)


def _reduce_rows(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, rows: tuple[int, ...]) -> None:
    along, *terms = sch.get_loops(block)[len(info.spatial) - 1 :]
    count = sch.sample_categorical(list(rows), name="rows")
    around, within = sch.split(along, [None, count])
    sch.reorder(around, *terms, within)
    for loop in terms:
        sch.unroll(loop)
    sch.vectorize(within, lanes=count)
    sch.add_fact(block, Vectorized())


def _vectorize(sch: ms.Schedule, block: ms.BlockRV, along: ms.LoopRV, within: ms.LoopRV, lanes: ms.Int) -> None:
    sch.vectorize(sch.fuse(along, within), lanes=lanes)
    sch.add_fact(block, Vectorized())


def _fills(extent: int, count: int) -> bool:
    """Whether vectors of so many rows are whole, or a last one that is not takes a small part of the time of all."""
    room = -(-extent // count) * count
    return room == extent or (extent >= 2 * count and room <= _MOST_ROOM * extent)


def _follower(sch: ms.Schedule, info: ms.BlockInfo) -> ms.BlockRV | None:
    """The element-wise block that alone reads the sums and can be computed right after them, if there is one."""
    if len(info.readers) != 1 or info.output:
        return None
    reader = sch.get_block(info.readers[0])
    follows, extents = sch.describe(reader), [it.extent for it in info.spatial]
    if follows.reduces or not follows.trivial or [it.extent for it in follows.iters] != extents:
        return None
    loop = sch.get_loops(sch.get_block(info.name))[len(info.spatial) - 2]
    return reader if sch.refusal(lambda on: on.reverse_compute_at(reader, loop)) is None else None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, most: int, terms: int) -> str | None:
    if not info.reduces or not info.trivial:
        return "it is not a reduction that nothing has scheduled"
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "its loops are tiles already"
    if len(info.spatial) < 2 or list(info.iters) != [*info.spatial, *info.reduction]:
        return "it has no rows"
    count = prod(it.extent or terms + 1 for it in info.reduction)
    if count > terms:
        return f"it sums so many terms ({count})"
    outer, inner = info.spatial[-2:]
    if outer.extent is None or inner.extent is None:
        return "its extents depend on tile sizes"
    if not 1 < inner.extent <= most or outer.extent < most:
        return f"it has no rows of 2 to {most} elements"
    within = frozenset(it.name for it in (inner, *info.reduction))
    if not all(reads_near_by(read, outer.name, within, most) for read in info.reads):
        return "what its rows read is apart"
    return None
