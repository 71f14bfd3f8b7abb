"""Multi-level tiling, with fusion of the consumer or a write cache."""

from __future__ import annotations

from metasched.rules.facts import Factored, Tiled

import metasched as ms

UNFUSED = "none"


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
    """Tile a reduction that reads its data again and again, so that tiles stay in registers and caches.

    `levels` gives the tile levels from the outside in, S for the spatial loops and R for the reduction loops (the
    structure of Ansor, Zheng et al. 2020, section 4.1). Structural choices: the single element-wise consumer
    computed under the first or second spatial level; without one, a write cache copied out there; or neither. And
    whether the operand that vectors run along is copied, tile by tile, to where it lies densely, under the first
    reduction level.

    Args:
        levels: the tile levels from the outside in, S for the spatial loops and R for the reduction loops.
        innermost: the largest innermost tile of a spatial loop.
        innermost_reduction: the largest innermost tile of a reduction loop.
        fuse_after: the spatial levels, counted from 1, under which the consumer or the write cache may be.
    """
    info = sch.describe(block)
    reason = _unfit(sch, block, info)
    if reason is not None:
        return ms.skip(reason)
    fusion = sch.choose("fusion", [*_names(sch, info, fuse_after), UNFUSED])
    packed = sch.choose("read_cache", [*_vector_operands(sch, info), UNFUSED])
    tiles = _tile(sch, block, info, levels, innermost, innermost_reduction)
    sch.note(block, Tiled(tuple(tiles[0])))
    if packed != UNFUSED:
        _cache(sch, block, packed, tiles[levels.index("R")][-1])
    if fusion != UNFUSED:
        _fuse(sch, block, info, tiles, levels, fusion)
    return None


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


def _consumer(sch: ms.Schedule, info: ms.BlockInfo) -> str | None:
    """The only reader, when it is element-wise over the same elements."""
    if info.output or len(info.readers) != 1:
        return None
    reader = sch.describe(sch.get_block(info.readers[0]))
    names = sch.block_names()
    later = {sch.describe(sch.get_block(name)).writes for name in names[names.index(info.name) + 1 :]}
    fits = reader.elementwise and reader.trivial and len(reader.iters) == len(info.spatial)
    # What else it reads is there when the block's tile is complete.
    return reader.name if fits and not any(read.buffer in later for read in reader.reads) else None


def _names(sch: ms.Schedule, info: ms.BlockInfo, after: tuple[int, ...]) -> list[str]:
    if info.positions:
        return []  # Values and positions are written together, where they belong.
    kind = "consumer" if _consumer(sch, info) is not None else "cache"
    return [f"{kind} at level {level}" for level in after]


def _vector_operands(sch: ms.Schedule, info: ms.BlockInfo) -> list[str]:
    """Buffers that are read along the last dimension of the result, and again for other elements of it.

    Not what an element-wise block computes: the rule `compute_location` may put that block where its copy would be.
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


def _cache(sch: ms.Schedule, block: ms.BlockRV, buffer: str, loop: ms.LoopRV) -> None:
    sch.compute_at(sch.cache_read(block, buffer, scope="local"), loop)


def _tile(
    sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, levels: str, innermost: int, innermost_reduction: int
) -> list[list[ms.LoopRV]]:
    """Split and reorder; the loops of each level."""
    tiles: list[list[ms.LoopRV]] = [[] for _ in levels]
    for loop, it in zip(sch.get_loops(block), info.iters, strict=True):
        places = [n for n, level in enumerate(levels) if (level == "R") == it.reduces]
        if len(places) == 1:
            parts = [loop]
        else:
            largest = innermost_reduction if it.reduces else innermost
            parts = sch.split(loop, sch.sample_tile(loop, parts=len(places), innermost=largest))
        for place, part in zip(places, parts, strict=True):
            tiles[place].append(part)
    sch.reorder(*(loop for level in tiles for loop in level))
    return tiles


def _fuse(
    sch: ms.Schedule,
    block: ms.BlockRV,
    info: ms.BlockInfo,
    tiles: list[list[ms.LoopRV]],
    levels: str,
    fusion: str,
) -> None:
    number = int(fusion.rsplit(" ", 1)[-1])
    level = [n for n, kind in enumerate(levels) if kind == "S"][number - 1]
    consumer = _consumer(sch, info)
    moved = sch.get_block(consumer) if consumer is not None else sch.cache_write(block, scope="local")
    sch.reverse_compute_at(moved, tiles[level][-1])
