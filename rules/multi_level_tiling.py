"""Multi-level tiling, with fusion of the consumer or a write cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from metasched.rules.consumers import elementwise_consumer, reuses
from metasched.rules.facts import Digits, Factored, Strip, Tiled
from metasched.rules.own_loops import own_loops

import metasched as ms

CONSUMER, CACHE, UNFUSED = "consumer", "cache", "none"
COLUMNS = ", columns around rows"
# Where the loop over some terms is among those of a tile, from the outside in.
_NO_WINDOW, _ALONG_ROWS, _DOWN_ROWS = range(3)


@ms.rule
def multi_level_tiling(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    levels: str = "SSRSRS",
    innermost: int = 64,
    innermost_reduction: int = 256,
    fuse_after: tuple[int, ...] = (1, 2),
) -> ms.Skip | None:
    """Tile a reduction that reuses its data, so that tiles stay in registers and caches.

    `levels` gives the tile levels from the outside in, S for the spatial loops and R for the reduction loops (the
    structure of Ansor, Zheng et al. 2020, section 4.1). Structural choices: the single element-wise consumer
    computed under the first or second spatial level; without one, a write cache copied out there; or neither. Where the
    operand along which vectors run is larger than the second cache, and than all others together, each of these is also
    there with the loops between two reduction levels in another order: columns around rows, so that what a tile of
    columns reads stays in the nearest cache for all tiles of rows.

    Args:
        levels: the tile levels from the outside in, S for the spatial loops and R for the reduction loops.
        innermost: the largest innermost tile of a spatial loop.
        innermost_reduction: the largest innermost tile of a reduction loop.
        fuse_after: the spatial levels, counted from 1, under which the consumer or the write cache may be.
    """
    if set(levels) != {"S", "R"}:
        raise ms.RuleError(
            f'multi_level_tiling: the levels are "{levels}"', hint="they are letters S and R, one of each at least"
        )
    info = sch.describe(block)

    def tile(on: ms.Schedule) -> Tiles:
        return _tile(on, block, info, levels, innermost, innermost_reduction)

    reason = _find_obstacle(sch, block, info) or sch.refusal(tile)
    if reason is not None:
        return ms.skip(reason)
    trial = sch.trial()
    tried = _Tiled(block, info, levels, tile(trial))
    between = [n for n, level in enumerate(levels) if level == "S" and "R" in levels[:n] and "R" in levels[n:]]
    orders = ["", COLUMNS] if between and _reads_columns(info, sch.target.l2) else [""]
    fusions = [*tried.fusions(trial, fuse_after), UNFUSED]
    fusion = sch.choose("fusion", [how + order for order in orders for how in fusions])
    tiled = _Tiled(block, info, levels, tile(sch))
    loops, inner = tiled.tiles
    sch.add_fact(block, Tiled(tuple(loops[0]), inner, loops[levels.index("R")][-1]))
    for n in between if fusion.endswith(COLUMNS) else ():
        *rows, columns = loops[n]
        sch.reorder(columns, *rows)
    tiled.fuse(sch, fusion.removesuffix(COLUMNS))
    return None


Tiles = tuple[list[list[ms.LoopRV]], dict[str, ms.Int]]


@dataclass(frozen=True)
class _Tiled:
    """A tiled block: `tiles` are the loops of each of the `levels`, and the innermost tile sizes by variable."""

    block: ms.BlockRV
    info: ms.BlockInfo
    levels: str
    tiles: Tiles

    def fuse(self, sch: ms.Schedule, fusion: str) -> None:
        if fusion == UNFUSED:
            return
        kind, level = fusion.split(" at level ")
        place = [n for n, letter in enumerate(self.levels) if letter == "S"][int(level) - 1]
        consumer = sch.get_block(self.info.readers[0]) if kind == CONSUMER else None
        sch.reverse_compute_at(consumer or sch.cache_write(self.block, scope="local"), self.tiles[0][place][-1])

    def fusions(self, trial: ms.Schedule, after: tuple[int, ...]) -> list[str]:
        """The places where the consumer can be, or else those where a write cache can be copied out."""
        if self.info.positions:
            return []  # Values and positions are written together, directly to their outputs.
        for kind in [CONSUMER, CACHE] if elementwise_consumer(trial, self.info) is not None else [CACHE]:
            places = [f"{kind} at level {level}" for level in after if 0 < level <= self.levels.count("S")]
            legal = [place for place in places if trial.refusal(partial(self.fuse, fusion=place)) is None]
            if legal:
                return legal
        return []


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> str | None:
    if not info.reduces or not info.initialises:
        return "it is not a reduction"
    if info.once:
        return "it depends on constants alone, and is computed once"
    if sch.facts(block, Factored) is not None:
        return "its reduction is factored"
    if not info.trivial and sch.facts(block, Digits) is None and sch.facts(block, Strip) is None:
        return "it is scheduled already"
    if not reuses(info):
        return "it reads every element once for each result, so tiles reuse nothing"
    if sch.facts(block, Strip) is not None and _sums_rows(info):
        return "it goes once along rows, which a strip has in the cache"
    return None


def _sums_rows(info: ms.BlockInfo) -> bool:
    """Whether a reduction goes along the rows of a buffer of which it reads every element once, such as a largest
    score; what else it reads, such as a mask, is small.
    """
    moving = {it.name for it in info.iters if it.extent != 1}
    terms = {it.name for it in info.iters if it.reduces}
    return any(moving <= set(read.bare) and read.bare[-1] in terms for read in info.reads if read.bare)


def _reads_columns(info: ms.BlockInfo, cache: int) -> bool:
    """Whether most of what is read depends on the last dimension of the result and not on the others alone, as filters
    of few pixels do, and a cache of so many bytes does not hold it.
    """
    moving = [it.name for it in info.spatial if it.extent != 1]
    if len(moving) < 2 or moving[-1] != info.spatial[-1].name:
        return False
    sizes = {True: 0, False: 0}
    for read in info.reads:
        sizes[moving[-1] in read.iters] += read.dtype.bytes * math.prod(extent or 1 for extent in read.shape)
    return sizes[True] > max(cache, sizes[False])


def _tile(
    sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, levels: str, innermost: int, innermost_reduction: int
) -> Tiles:
    """Split and reorder; the loops of each level, and the innermost tile of every spatial variable that is split.

    Digits that decide conditions are around the tiles that share them: those of elements below the outermost level,
    which threads share, those of terms around the reduction.
    """
    tiles: list[list[ms.LoopRV]] = [[] for _ in levels]
    inner: dict[str, ms.Int] = {}
    lanes = sch.target.lanes(info.dtype)
    whole = Digits(tuple(own_loops(sch, block, info)), (None,) * len(info.iters))
    split = sch.facts(block, Digits) or whole
    first = {False: levels.index("S") + 1, True: levels.index("R") if "R" in levels else len(levels)}
    apart: list[list[ms.LoopRV]] = [[] for _ in range(len(levels) + 1)]
    for loop, digit, it in zip(split.rest, split.digits, info.iters, strict=True):
        places = [n for n, level in enumerate(levels) if (level == "R") == it.reduces]
        if digit is not None:
            apart[first[it.reduces]].append(digit)
        if len(places) == 1:
            parts = [loop]
        else:
            largest = innermost_reduction if it.reduces else innermost
            step = 0 if it.reduces else lanes if it is info.spatial[-1] else 1
            sizes = sch.sample_tile(loop, parts=len(places), innermost=largest, step=step)
            parts = sch.split(loop, sizes)
            if not it.reduces and digit is None:
                inner[it.name] = sizes[-1]
        for place, part in zip(places, parts, strict=True):
            tiles[place].append(part)
    if "R" in levels:
        last = max(n for n, level in enumerate(levels) if level == "R")
        tiles[last] = _rows_innermost(info, tiles[last])
    sch.reorder(*(loop for digits, level in zip(apart, [*tiles, []], strict=True) for loop in (*digits, *level)))
    return tiles, inner


def _rows_innermost(info: ms.BlockInfo, terms: list[ms.LoopRV]) -> list[ms.LoopRV]:
    """The loops over the terms of a tile, with those down a window inside those along its rows, which vectors go along.

    Neighbouring rows of a tile read the same rows of the window's input, which are then loaded once for all of them. A
    step along the row would be between, at which they are read from one element further on.
    """
    *rows, lanes = (it.name for it in info.spatial)
    places: dict[str, int] = {}
    for read in info.reads:
        for use in read.uses:
            for it in info.reduction:
                if it.name in use and len(use) > 1:
                    shared = _ALONG_ROWS if lanes in use else _DOWN_ROWS if use & set(rows) else _NO_WINDOW
                    places[it.name] = max(shared, places.get(it.name, _NO_WINDOW))
    if lanes in dict(info.shared) or not {_ALONG_ROWS, _DOWN_ROWS} <= set(places.values()):
        return terms
    order = sorted(range(len(terms)), key=lambda n: places.get(info.reduction[n].name, _NO_WINDOW))
    return [terms[n] for n in order]
