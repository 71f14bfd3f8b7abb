"""Windows over pixels whose few channels lie side by side, along rows of all channels."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Factored, Tiled

import metasched as ms


@ms.rule
def interleaved(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Take a row of pixels and their channels for one dimension, where channels alone fill at most half of a vector.

    Each pixel of an image of 512 by 512 has its three colours side by side: a row of them has 1536 elements, and a
    window reads the same row moved by three. It is for reductions whose last dimension is so short; what they write to
    an output is copied there.

    Few operators: those of the library have channels first, or as many as fill vectors; images of bytes have three.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info)
    if reason is not None:
        return ms.skip(reason)
    reason = sch.refusal(partial(_join, block=block, info=info))
    if reason is not None:
        return ms.skip(reason)
    _join(sch, block, info)
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> str | None:
    if not info.reduces or not info.initialises or info.positions:
        return "it is not a reduction"
    if not info.trivial:
        return "it is scheduled already"
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "its loops are tiles already"
    if len(info.spatial) < 2:
        return "its result has one dimension"
    pixel, channel = info.spatial[-2:]
    if pixel.extent is None or channel.extent is None:
        return "its extents depend on tile sizes"
    if not 1 < channel.extent <= sch.target.lanes(info.dtype) // 2:
        return f"its rows ({channel.extent} elements) fill half of a vector, or have one element"
    if pixel.extent == 1:
        return "it has one pixel"
    moved = [read for read in info.reads if not read.iters.isdisjoint({pixel.name, channel.name})]
    if not moved or not all(_lies_in_rows(read, pixel, channel) for read in moved):
        return "what it reads does not have its channels side by side"
    return None


def _lies_in_rows(read: ms.ReadInfo, pixel: ms.IterInfo, channel: ms.IterInfo) -> bool:
    """Whether the pixels of a read follow one another with all of their channels, each moved alike."""
    if len(read.uses) < 2 or read.bare[-1] != channel.name or read.shape[-1] != channel.extent:
        return False
    others = frozenset().union(*read.uses[:-2])
    return pixel.name in read.beside[-2] and others.isdisjoint({pixel.name, channel.name})


def _join(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo) -> None:
    pixel, channel = info.spatial[-2:]
    if info.output:
        result = sch.reindex(block, info.writes)
        sch.fuse(*sch.get_loops(result)[-2:])
    names = [it.name for it in info.iters]
    joined = [f"{pixel.name}*{channel.extent} + {channel.name}" if name == pixel.name else name for name in names]
    joined.remove(channel.name)
    sch.transform_block_layout(block, f"{', '.join(names)} -> {', '.join(joined)}")
