"""Convolutions through transforms that take fewer multiplications."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Placed, Vectorized

import metasched as ms

DIRECT = "direct"


@ms.rule
def winograd(
    sch: ms.Schedule, block: ms.BlockRV, *, tiles: tuple[int, ...] = (4, 6, 2), terms: int = 8
) -> ms.Skip | None:
    """Compute a convolution in tiles of its result, from products of transformed tiles, where callers allow it.

    It needs the permission `winograd`, as rounding errors are larger. A structural choice: how many results a tile has
    along each axis of the window, or `direct`. The products become a batch of matrix products, one for each element of
    a tile, over all tiles as one variable, for other rules to tile. The transforms run in vectors along the last
    dimension, a tile at a time, and what element-wise blocks make of the result is computed in the last of them
    (Lavin and Gray 2016, section 4). The filter's transform is run ahead of calls where the filter is constant.

    Args:
        tiles: results of a tile along an axis that may be chosen.
        terms: the fewest terms, besides those of the window, for which transforms can pay.
    """
    if not sch.allows("winograd"):
        return ms.skip("it is not allowed: results would differ by more (`allow`)")
    info = sch.describe(block)
    if not info.reduces or not info.trivial:
        return ms.skip("it is no reduction that is not scheduled yet")
    if (info.size(tuple(it for it in info.reduction if not _slides(info, it))) or 0) < terms:
        return ms.skip("it sums over so few channels that transforms would take longer")
    refusals = {tile: sch.refusal(partial(_transform, block=block, tile=tile)) for tile in tiles}
    legal = [tile for tile, reason in refusals.items() if reason is None]
    if not legal:
        return ms.skip(next(iter(refusals.values()), None) or "no tile size is given")
    choice = sch.choose("winograd", [*legal, DIRECT])
    if isinstance(choice, int):
        _transform(sch, block, choice)
    return None


def _slides(info: ms.BlockInfo, it: ms.IterInfo) -> bool:
    """Whether a variable of a sum is read together with an element's, as those of windows are."""
    reduced = {other.name for other in info.reduction}
    return any(it.name in use and use - reduced for read in info.reads for use in read.uses)


def _transform(sch: ms.Schedule, block: ms.BlockRV, tile: int) -> None:
    weights, data, inverse = sch.winograd(block, tile)
    results = _rows(sch, inverse, block)
    axes = [
        next(iter(remainder.iters))
        for passed in (*results, inverse)
        for remainder in sch.describe(passed).remainders[:1]
    ]
    _inline_padding(sch, data)
    _fuse_variables(sch, block, axes)
    _follow(sch, inverse)
    for last in (weights, data):
        loops = sch.get_loops(last)
        along = {sch.name_of(rows): sch.describe(rows).iters[0].name for rows in _rows(sch, last)}
        _vectorize_tile(sch, last, loops[: len(axes)], loops[len(axes) :], along)
    loops, elements, others = sch.get_loops(inverse), [], []
    for loop, it in zip(loops, sch.describe(inverse).iters, strict=True):
        if it.name in axes:
            loop, element = sch.split(loop, [None, tile])
            elements.append(element)
        others.append(loop)
    _vectorize_tile(sch, inverse, elements, others, {sch.name_of(rows): axes[0] for rows in results})


def _rows(sch: ms.Schedule, last: ms.BlockRV, but: ms.BlockRV | None = None) -> list[ms.BlockRV]:
    """The pass along the first axis, of two, that comes before the last; `but` is no pass."""
    name = None if but is None else sch.name_of(but)
    found = [sch.get_block(source) for source in sch.describe(last).sources if source.endswith(".rows")]
    return [rows for rows in found if sch.name_of(rows) != name]


def _inline_padding(sch: ms.Schedule, data: ms.BlockRV) -> None:
    """A stage that pads is computed in the copy that pads to whole tiles."""
    first = (*_rows(sch, data), data)[0]
    for name in sch.describe(first).sources:
        copy = sch.get_block(name)
        for source in sch.describe(copy).sources:
            padding = sch.get_block(source)
            if sch.describe(copy).conditional and sch.refusal(partial(_inline, block=padding)) is None:
                _inline(sch, padding)


def _inline(sch: ms.Schedule, block: ms.BlockRV) -> None:
    sch.compute_inline(block)


def _fuse_variables(sch: ms.Schedule, block: ms.BlockRV, axes: list[str]) -> None:
    """One variable for the elements of a tile, and one for all tiles: what is left is a batch of matrix products."""
    if len(axes) < 2:
        return
    iters = sch.describe(block).iters
    names = [it.name for it in iters]
    extents = {it.name: it.extent for it in iters}
    first, second = names[:2]
    out = [f"{first}*{extents[second]} + {second}"]
    rows, columns = axes
    adjacent = names.index(columns) == names.index(rows) + 1
    for name in names[2:]:
        if name == rows and adjacent:
            out.append(f"{rows}*{extents[columns]} + {columns}")
        elif name != columns or not adjacent:
            out.append(name)
    sch.transform_block_layout(block, f"{', '.join(names)} -> {', '.join(out)}")


def _follow(sch: ms.Schedule, inverse: ms.BlockRV) -> None:
    """Compute what single element-wise readers make of the result where it is made."""
    while len(readers := sch.describe(inverse).readers) == 1:
        reader = sch.get_block(readers[0])
        if not sch.describe(reader).elementwise or sch.refusal(partial(_inline_back, block=reader)) is not None:
            return
        _inline_back(sch, reader)


def _inline_back(sch: ms.Schedule, block: ms.BlockRV) -> None:
    sch.reverse_compute_inline(block)


def _vectorize_tile(
    sch: ms.Schedule, last: ms.BlockRV, elements: list[ms.LoopRV], others: list[ms.LoopRV], rows: dict[str, str]
) -> None:
    """A tile at a time, in vectors along the last dimension, with the pass before it for that tile.

    What each element of a tile is depends on a variable, whose loop is unrolled; `rows` has that of the pass before.
    """
    lanes = sch.target.lanes(sch.describe(last).dtype)
    *outer, along = others
    vectors, inside = sch.split(along, [None, lanes])
    sch.reorder(*outer, vectors, *elements, inside)
    for name, along_name in rows.items():
        passed = sch.get_block(name)
        sch.compute_at(passed, vectors)
        info = sch.describe(passed)
        loops = dict(zip(info.loops, sch.get_loops(passed), strict=True))
        own = [loop for loop, held in zip(info.loops, info.held, strict=True) if held == 1]
        element = next(loop for loop in own if any(it.name == along_name for it in info.iter_of(loop)))
        _schedule_pass(sch, passed, loops[element], loops[own[-1]], lanes)
    _schedule_pass(sch, last, elements[-1], inside, lanes)


def _schedule_pass(sch: ms.Schedule, block: ms.BlockRV, element: ms.LoopRV, inside: ms.LoopRV, lanes: int) -> None:
    sch.unroll(element)
    sch.vectorize(inside, lanes=lanes)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Placed())
