"""Reductions of which element-wise blocks read several results at a time, computed in tiles of what these make."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from metasched.rules.facts import Repeated, Tiled
from metasched.rules.own_loops import own_loops

import metasched as ms


@ms.rule
def gates(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    rows: int = 16,
    columns: int = 64,
    innermost_reduction: int = 256,
) -> ms.Skip | None:
    """Compute a tile of all gates, and with it what they are for, before the next tile.

    Applies to a reduction whose results are read by element-wise blocks alone, at numbers of a dimension (which is that
    of gates) and at the same element along all others: the steps of LSTM and GRU layers, gated linear units. The blocks
    become one nest over tiles of sampled sizes, in which the reduction is computed for the gates of a tile, some or all
    at a time. So gates stay in the nearest cache of the thread that computes them: apart, each would go through memory,
    from the cores that have multiplied to the one that goes on. Steps follow one another, so weights are where the step
    before has left them, and are not asked for ahead (see `prefetch_tiles`).

    Few operators: of the library none has gates; layers of networks do, such as LSTMs, GRUs and gated linear units.

    Args:
        rows: the largest tile of a dimension other than the last.
        columns: the largest tile of the last dimension.
        innermost_reduction: the largest innermost tile of a reduction loop.
    """
    info = sch.describe(block)
    found = _chain(sch, info)
    if isinstance(found, str):
        return ms.skip(found)
    sizes = _Sizes(rows, columns, innermost_reduction)
    reason = sch.refusal(partial(_compute, block=block, chain=found, sizes=sizes))
    if reason is not None:
        return ms.skip(reason)
    sch.add_fact(block, _compute(sch, block, found, sizes))
    sch.add_fact(block, Repeated())
    return None


@dataclass(frozen=True)
class _Sizes:
    """The largest tiles, under the names of the rule's settings."""

    rows: int
    columns: int
    innermost_reduction: int


@dataclass(frozen=True)
class _Chain:
    """The element-wise blocks that read gates, or one another, in program order.

    `gates` names the iteration variables of the reduction that are numbers where it is read.
    """

    blocks: tuple[ms.BlockInfo, ...]
    gates: frozenset[str]


def _chain(sch: ms.Schedule, info: ms.BlockInfo) -> _Chain | str:
    """What is computed of a block's results, element by element; or why that is not what this rule is for."""
    if not info.reduces or not info.initialises or info.positions:
        return "it is not a reduction"
    if info.output or not info.readers:
        return "its result is an output"
    if not info.trivial:
        return "it is scheduled already"
    found: dict[str, ms.BlockInfo] = {}
    for name in sch.block_names():
        reader = sch.describe(sch.get_block(name))
        if name in info.readers or found.keys() & set(reader.sources):
            found[name] = reader
    first = next(iter(found.values()))
    if not set(info.readers) <= found.keys():
        return "a block before it reads its result"
    for reader in found.values():
        reason = _find_difference(reader, first) or _find_other_place(reader, found, info)
        if reason:
            return reason
    names = _gates_of(info, found.values())
    if info.spatial[-1].name in names:
        return "its gates lie side by side, where vectors would run along them"
    return _Chain(tuple(found.values()), names)


def _gates_of(info: ms.BlockInfo, readers: Iterable[ms.BlockInfo]) -> frozenset[str]:
    """The variables of a reduction's result that are numbers in every read of it."""
    uses = [read.uses for reader in readers for read in reader.reads if read.buffer == info.writes]
    return frozenset(it.name for n, it in enumerate(info.spatial) if not any(used[n] for used in uses))


def _find_difference(reader: ms.BlockInfo, first: ms.BlockInfo) -> str:
    """Why a block cannot share the nest of another; '' where it may."""
    if reader.reduces or not reader.trivial:
        return f"{reader.name}, which is computed of its results, is a reduction, or scheduled already"
    if [it.extent for it in reader.iters] != [it.extent for it in first.iters]:
        return f"{reader.name} is over other elements than {first.name}"
    return ""


def _find_other_place(reader: ms.BlockInfo, chain: dict[str, ms.BlockInfo], gated: ms.BlockInfo) -> str:
    """Why a block reads the chain at other places than its own element; '' where it does not."""
    own = [it.name for it in reader.iters if it.extent != 1]
    made = {b.writes for b in chain.values()}
    extents = [it.extent for it in gated.spatial]
    for read in reader.reads:
        if read.buffer in made and [name for name in read.bare if name in own] != own:
            return f"{reader.name} reads {read.buffer} at other elements than its own"
        if read.buffer == gated.writes:
            moving = [
                name for use, name, extent in zip(read.uses, read.bare, extents, strict=True) if extent != 1 and use
            ]
            if moving != own:
                return f"{reader.name} reads {read.buffer} at other elements than its own"
            if len(moving) == sum(extent != 1 for extent in extents):
                return "each of its results is read at one place, so that a consumer can be fused with it"
    return ""


def _compute(sch: ms.Schedule, block: ms.BlockRV, chain: _Chain, sizes: _Sizes) -> Tiled:
    """Move all blocks to one nest of tiles, and tile the reduction in it."""
    outer, inner = _tiles_of_elements(sch, block, chain, sizes)
    for other in chain.blocks[1:]:
        sch.reverse_compute_at(sch.get_block(other.name), outer[-1])
    sch.compute_at(block, outer[-1])
    for made in (sch.describe(block), *chain.blocks):
        if not made.output:
            sch.set_scope(sch.get_block(made.name), "local")
    info = sch.describe(block)
    terms: list[tuple[ms.LoopRV, ms.LoopRV]] = []
    over, elements = list[ms.LoopRV](), list[ms.LoopRV]()
    for loop, it in zip(own_loops(sch, block, info), info.iters, strict=True):
        if it.reduces:
            tiles = sch.sample_tile(loop, parts=2, innermost=sizes.innermost_reduction)
            outside, inside = sch.split(loop, tiles)
            terms.append((outside, inside))
        elif it.name in chain.gates:
            parts = [n for n in range(it.extent or 1, 0, -1) if (it.extent or 1) % n == 0]
            outside, inside = sch.split(loop, [None, sch.sample_categorical(parts, name=it.name)])
            over.append(outside)
            elements.append(inside)
        else:
            elements.append(loop)
    outside_terms, inside_terms = zip(*terms, strict=True)
    sch.reorder(*over, *outside_terms, *inside_terms, *elements)
    names = [it.name for it in info.spatial if it.name not in chain.gates and it.extent != 1]
    return Tiled(tuple(outer), dict(zip(names, inner, strict=True)), outside_terms[-1])


def _tiles_of_elements(
    sch: ms.Schedule, block: ms.BlockRV, chain: _Chain, sizes: _Sizes
) -> tuple[list[ms.LoopRV], list[ms.Int]]:
    """Tile the first of the blocks that read gates; its loops over tiles, and the sizes of these along what is not 1.

    Columns are outermost where what is read for them is larger than what is read for rows, such as weights for few
    rows: then each thread reads a part of it.
    """
    first = chain.blocks[0]
    outer, inner, within = list[ms.LoopRV](), list[ms.Int](), list[ms.LoopRV]()
    lanes = sch.target.lanes(first.dtype)
    for loop, it in zip(own_loops(sch, sch.get_block(first.name), first), first.iters, strict=True):
        is_last = it is first.iters[-1]
        largest, step = (sizes.columns, lanes) if is_last else (sizes.rows, 1)
        tiles = sch.sample_tile(loop, parts=2, innermost=largest, step=step)
        over, inside = sch.split(loop, tiles)
        outer.append(over)
        within.append(inside)
        if it.extent != 1:
            inner.append(tiles[-1])
    if _reads_more_for_columns(sch.describe(block)):
        outer = [outer[-1], *outer[:-1]]
    sch.reorder(*outer, *within)
    return outer, inner


def _reads_more_for_columns(info: ms.BlockInfo) -> bool:
    """Whether most of what is read depends on the last dimension of the result."""
    last, found = info.spatial[-1].name, {True: 0, False: 0}
    for read in info.reads:
        found[last in read.iters] += read.dtype.bytes * math.prod(extent or 1 for extent in read.shape)
    return found[True] > found[False]
