"""Multi-level tiling, with fusion of the consumer or a write cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from metasched.rules.facts import Factored, Tiled

import metasched as ms

CONSUMER, CACHE, UNFUSED = "consumer", "cache", "none"


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
    computed under the first or second spatial level; without one, a write cache copied out there; or neither. And
    whether the operand that vectors run along is copied, tile by tile, to a dense buffer under the first reduction
    level.

    Args:
        levels: the tile levels from the outside in, S for the spatial loops and R for the reduction loops.
        innermost: the largest innermost tile of a spatial loop.
        innermost_reduction: the largest innermost tile of a reduction loop.
        fuse_after: the spatial levels, counted from 1, under which the consumer or the write cache may be.
    """
    info = sch.describe(block)

    def tile(on: ms.Schedule) -> Tiles:
        return _tile(on, block, info, levels, innermost, innermost_reduction)

    reason = _unfit(sch, block, info) or sch.refusal(tile)
    if reason is not None:
        return ms.skip(reason)
    trial = sch.trial()
    tried = _Tiled(block, info, levels, tile(trial))
    fusion = sch.choose("fusion", [*tried.fusions(trial, fuse_after), UNFUSED])
    packed = sch.choose("read_cache", [*tried.caches(trial, fusion), UNFUSED])
    tiled = _Tiled(block, info, levels, tile(sch))
    sch.add_fact(block, Tiled(tuple(tiled.tiles[0])))
    tiled.cache(sch, packed)
    tiled.fuse(sch, fusion)
    return None


Tiles = list[list[ms.LoopRV]]


@dataclass(frozen=True)
class _Tiled:
    """A tiled block: `tiles` are the loops of each of the `levels`. Each step does nothing where it is `UNFUSED`."""

    block: ms.BlockRV
    info: ms.BlockInfo
    levels: str
    tiles: Tiles

    def cache(self, sch: ms.Schedule, buffer: str) -> None:
        if buffer != UNFUSED:
            sch.compute_at(sch.cache_read(self.block, buffer, scope="local"), self.tiles[self.levels.index("R")][-1])

    def fuse(self, sch: ms.Schedule, fusion: str) -> None:
        if fusion == UNFUSED:
            return
        kind, level = fusion.split(" at level ")
        place = [n for n, letter in enumerate(self.levels) if letter == "S"][int(level) - 1]
        consumer = sch.get_block(self.info.readers[0]) if kind == CONSUMER else None
        sch.reverse_compute_at(consumer or sch.cache_write(self.block, scope="local"), self.tiles[place][-1])

    def fusions(self, trial: ms.Schedule, after: tuple[int, ...]) -> list[str]:
        """The places where the consumer can be, or else those where a write cache can be copied out."""
        if self.info.positions:
            return []  # Values and positions are written together, directly to their outputs.
        for kind in [CONSUMER, CACHE] if _has_consumer(trial, self.info) else [CACHE]:
            places = [f"{kind} at level {level}" for level in after]
            legal = [place for place in places if trial.refusal(partial(self.fuse, fusion=place)) is None]
            if legal:
                return legal
        return []

    def caches(self, trial: ms.Schedule, fusion: str) -> list[str]:
        """The operands that can be copied, with this fusion."""

        def steps(buffer: str, on: ms.Schedule) -> None:
            self.cache(on, buffer)
            self.fuse(on, fusion)

        return [b for b in _vector_operands(trial, self.info) if trial.refusal(partial(steps, b)) is None]


def _unfit(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> str | None:
    if not info.reduces or not info.initialises:
        return "it is not a reduction"
    if sch.facts(block, Factored) is not None:
        return "its reduction is factored"
    if not info.trivial:
        return "it is scheduled already"
    spatial = {it.name for it in info.spatial if it.extent != 1}
    if not any(spatial - read.iters for read in info.reads):
        return "it reads every element once for each result, so tiles reuse nothing"
    return None


def _has_consumer(sch: ms.Schedule, info: ms.BlockInfo) -> bool:
    """Whether exactly one block reads the result, and is element-wise over the same elements."""
    if info.output or len(info.readers) != 1:
        return False
    reader = sch.describe(sch.get_block(info.readers[0]))
    return reader.elementwise and reader.trivial and len(reader.iters) == len(info.spatial)


def _vector_operands(sch: ms.Schedule, info: ms.BlockInfo) -> list[str]:
    """Buffers that are read along the last dimension of the result, and reused for other elements of it.

    Results of element-wise blocks are excluded: `compute_location` may compute such a block where its copy would be.
    """
    moving = {sch.describe(b).writes for b in (sch.get_block(name) for name in info.sources) if _moves(sch.describe(b))}
    spatial = [it.name for it in info.spatial if it.extent != 1]
    return list(
        dict.fromkeys(
            read.buffer
            for read in info.reads
            if read.buffer not in moving
            and spatial
            and read.uses
            and spatial[-1] in read.uses[-1]
            and set(spatial) - read.iters
        )
    )


def _moves(info: ms.BlockInfo) -> bool:
    return info.elementwise and info.trivial


def _tile(
    sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, levels: str, innermost: int, innermost_reduction: int
) -> Tiles:
    """Split and reorder; the loops of each level."""
    tiles: Tiles = [[] for _ in levels]
    lanes = sch.target.lanes(info.dtype)
    for loop, it in zip(sch.get_loops(block), info.iters, strict=True):
        places = [n for n, level in enumerate(levels) if (level == "R") == it.reduces]
        if len(places) == 1:
            parts = [loop]
        else:
            largest = innermost_reduction if it.reduces else innermost
            step = 0 if it.reduces else lanes if it is info.spatial[-1] else 1
            parts = sch.split(loop, sch.sample_tile(loop, parts=len(places), innermost=largest, step=step))
        for place, part in zip(places, parts, strict=True):
            tiles[place].append(part)
    sch.reorder(*(loop for level in tiles for loop in level))
    return tiles
