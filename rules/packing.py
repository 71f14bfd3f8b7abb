"""Copies of a tiled reduction's operands, in the order in which it reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from metasched.rules.facts import Strip, Threaded, Tiled, Vectorized

import metasched as ms

NONE, TILES, PANELS, BY_TILE = "none", "tiles", "panels", "panels by tile"
UNROLLED = 4  # Vectors of a row of a panel.
LIKELY = (0.9, 0.1)  # How likely they are copied without a loop, and with one.
_FEWEST_SHARED_ELEMENTS = 1 << 18  # From so many elements on, all threads copy.
# The usual width of a panel, and how many panels there are for each thread.
_USUAL_WIDTH, _SHARES = 32, 8


@ms.rule
def packing(sch: ms.Schedule, block: ms.BlockRV, *, reuse: int = 64, gathered: int = 32) -> ms.Skip | None:
    """Copy operands of a tiled reduction to where and how it reads them.

    A structural choice between `none`; `X in tiles`, where what a tile reads of the operand along which vectors run is
    copied under the outermost reduction level; and `X in panels`, where the whole operand is copied ahead, a panel as
    wide as the innermost tile after another, so that a tile reads one run of memory (Goto and van de Geijn 2008,
    section 4). `panels of all` does so for every operand that has such tiles, and `X in panels by tile` for what the
    tile of a thread reads, where that is large. Constant operands are copied ahead only:
    that is done once, whatever the number of calls. Others are where the copy can pay: vectors would gather it, or the
    second cache does not hold much more than it; and one that vectors do not run along, where it is far larger. What
    vectors would gather in each of several strips (see `strips`) is always copied, and so are constants of which a call
    reads every element once, such as a matrix times a vector: reading them is all that takes time, and the hardware
    follows one run of memory, but no parts of rows that lie a page apart.

    Where vectors of a copy would gather, since they run across the rows of what is copied, runs of each row are read as
    a whole and transposed in registers, if the length of a row is a multiple of a run's.

    Of copies that are made at every call, whether the vectors of a row are copied without a loop is a random variable,
    and so is whether halves are copied a register at a time or as many as are multiplied at a time. Threads copy whole
    panels where there are enough.

    Args:
        reuse: how often an element is read, at least, for a copy of the whole operand to be offered at every call.
        gathered: the same of an operand that vectors would gather.
    """
    tiled = sch.facts(block, Tiled)
    if tiled is None or tiled.terms is None:
        return ms.skip("it is not tiled")
    info = sch.describe(block)
    known = all(it.extent is not None for it in info.iters)
    operands = [x for x in _operands(sch, info, tiled) if x.reads > 1 or (x.constant and known)]
    offered = _options(operands, reuse, gathered, sch.target.l2)
    legal = {name: steps for name, steps in offered.items() if not _refusal(sch, block, tiled, steps)}
    if not legal:
        return ms.skip("no operand is reused that can be copied")
    copied = [operand for steps in legal.values() for _, operand in steps]
    in_strips = sch.facts(block, Strip) is not None and any(operand.strided for operand in copied)
    streamed = any(operand.reads == 1 for operand in copied)
    how = sch.choose("packed", [*legal] if in_strips or streamed else [*legal, NONE])
    if how != NONE:
        _pack(sch, block, tiled, legal[how])
    return None


@dataclass(frozen=True)
class _Operand:
    """A buffer that the block reads at one place.

    `axis` is the dimension whose index is the spatial variable `along` alone, whose innermost tile is as wide as a
    panel; None where there is none. `in_lanes`: vectors run along its last dimension; `strided`: along another.
    `reads` is how often an element is read, `bytes` the size of all that are, as far as known; `lanes` how many a
    vector has, `multiplied` how many of what they are made for products. `extent` is that of `along`,
    `element` the bytes of an element.
    """

    buffer: str
    rank: int
    axis: int | None
    along: str
    constant: bool
    in_lanes: bool
    strided: bool
    reads: float
    bytes: float
    extent: int
    element: int
    lanes: int
    multiplied: int

    def panels(self) -> str:
        """The index map of the panels, whose width is `t`."""
        names = [f"d{n}" for n in range(self.rank)]
        assert self.axis is not None
        tiled = names[self.axis]
        return f"{', '.join(names)} -> {tiled}//t, {', '.join(n for n in names if n != tiled)}, {tiled}%t"


_Steps = tuple[tuple[str, _Operand], ...]


def _operands(sch: ms.Schedule, info: ms.BlockInfo, tiled: Tiled) -> list[_Operand]:
    """The buffers that are read at one place, and that no block computes that could move to where a copy would be."""
    moving = {sch.describe(b).writes for b in (sch.get_block(name) for name in info.sources) if _moves(sch.describe(b))}
    places = [read.buffer for read in info.reads]
    constants = {argument.name for argument in sch.program.inputs if argument.const}
    extents = {it.name: it.extent or 1 for it in info.iters}
    spatial = [it.name for it in info.spatial if it.extent != 1]
    out = []
    for read in info.reads:
        if read.buffer in moving or places.count(read.buffer) > 1 or not read.uses or not spatial:
            continue
        bare = {name: n for n, use in enumerate(read.uses) if len(use) == 1 for name in use if name in tiled.inner}
        along = next((name for name in reversed(spatial) if name in bare), None)
        out.append(
            _Operand(
                buffer=read.buffer,
                rank=len(read.uses),
                axis=None if along is None or len(read.uses) < 2 else bare[along],
                along=along or "",
                constant=read.buffer in constants,
                in_lanes=spatial[-1] in read.uses[-1] and sum(spatial[-1] in use for use in read.uses) == 1,
                strided=spatial[-1] in read.iters and spatial[-1] not in read.uses[-1],
                reads=math.prod(extent for name, extent in extents.items() if name not in read.iters),
                bytes=math.prod(extent for name, extent in extents.items() if name in read.iters) * read.dtype.bytes,
                extent=extents.get(along or "", 1),
                element=read.dtype.bytes,
                lanes=sch.target.lanes(read.dtype),
                multiplied=sch.target.lanes(info.dtype),
            )
        )
    return out


def _moves(info: ms.BlockInfo) -> bool:
    return not info.reduces and info.trivial


def _options(operands: list[_Operand], reuse: int, gathered: int, cache: int) -> dict[str, _Steps]:
    """What may be copied, and how, where the second cache holds `cache` bytes."""
    out: dict[str, _Steps] = {}
    for operand in operands:
        if operand.in_lanes and not operand.constant:
            out[f"{operand.buffer} in {TILES}"] = ((TILES, operand),)
    tall = [x for x in operands if x.axis is not None and (x.constant or x.reads >= (gathered if x.strided else reuse))]
    ahead = [x for x in tall if x.constant or x.strided or (x.in_lanes and 4 * x.bytes > cache)]
    for operand in ahead:
        out[f"{operand.buffer} in {PANELS}"] = ((PANELS, operand),)
        if operand.in_lanes and not operand.constant and operand.bytes > cache:
            out[f"{operand.buffer} in {BY_TILE}"] = ((BY_TILE, operand),)
    every = [x for x in tall if x in ahead or x.bytes > 4 * cache]
    if len(every) > 1:
        out[f"{PANELS} of all"] = tuple((PANELS, operand) for operand in every)
    return out


def _refusal(sch: ms.Schedule, block: ms.BlockRV, tiled: Tiled, steps: _Steps) -> str | None:
    return sch.refusal(partial(_pack, block=block, tiled=tiled, steps=steps))


def _pack(sch: ms.Schedule, block: ms.BlockRV, tiled: Tiled, steps: _Steps) -> None:
    for how, operand in steps:
        copy = sch.cache_read(block, operand.buffer, scope="global" if how == PANELS else "local")
        if how == TILES:
            sch.compute_at(copy, tiled.terms)
            sch.annotate(copy, "unroll_limit", sch.sample_categorical([0, UNROLLED], name="unrolled"))
            continue
        if how == BY_TILE:
            sch.compute_at(copy, tiled.outer[-1])
        _write_panels(sch, copy, operand, tiled.inner[operand.along], how == BY_TILE)


def _share(sch: ms.Schedule, copy: ms.BlockRV, panel: ms.LoopRV, operand: _Operand) -> None:
    """Let threads share panels where there are enough, as a panel's number is then no quotient in every row."""
    large = operand.bytes >= _FEWEST_SHARED_ELEMENTS * operand.element
    if large and operand.extent >= _USUAL_WIDTH * _SHARES * sch.target.threads:
        sch.parallel(panel)
        sch.add_fact(copy, Threaded())


def _lanes(sch: ms.Schedule, operand: _Operand) -> ms.Int | int:
    """The elements that are copied at a time: a vector of them or, where products are of wider ones, as many as are
    multiplied at a time. What is copied ahead takes the former."""
    if operand.constant or operand.multiplied >= operand.lanes:
        return operand.lanes
    return sch.sample_categorical([operand.lanes, operand.multiplied], name="lanes")


def _run_of_neighbours(
    sch: ms.Schedule, copy: ms.BlockRV, operand: _Operand, loops: list[ms.LoopRV]
) -> tuple[ms.LoopRV, ...]:
    """The loop over neighbours that vectors of a panel read side by side, unrolled, where each vector reads elements
    that are far apart: whole runs are read then, and transposed in registers. `loops` gets what is left outside."""
    info = sch.describe(copy)
    count, extent = sch.target.neighbours(info.dtype), info.iters[-1].extent
    if not operand.strided or operand.axis == operand.rank - 1 or extent is None or count < 2 or extent % count:
        return ()
    outer, run = sch.split(loops.pop(), [None, count])
    loops.append(outer)
    sch.unroll(run)
    return (run,)


def _write_panels(sch: ms.Schedule, copy: ms.BlockRV, operand: _Operand, width: ms.Int, by_rows: bool) -> None:
    """Write panels in vectors: one after another, or those of a tile, which are few, a row after another, as they are
    read."""
    sch.transform_layout(copy, operand.panels(), width)
    assert operand.axis is not None
    loops = sch.get_loops(copy)[-operand.rank :]
    panel, inside = sch.split(loops.pop(operand.axis), [None, width])
    run = _run_of_neighbours(sch, copy, operand, loops)
    sch.reorder(*((*loops, panel) if by_rows else (panel, *loops)), *run, inside)
    sch.vectorize(inside, lanes=_lanes(sch, operand))
    ahead = operand.constant or not operand.in_lanes
    limit = UNROLLED if ahead else sch.sample_categorical([UNROLLED, 0], probabilities=LIKELY, name="unrolled")
    sch.annotate(copy, "unroll_limit", limit)
    sch.add_fact(copy, Vectorized())
    if not (ahead or by_rows):
        _share(sch, copy, panel, operand)
