"""Tensor intrinsics that work lane by lane, in windows: sums for each channel of its own neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from metasched.rules.consumers import obstacle_to_tiles
from metasched.rules.facts import Tiled, Vectorized
from metasched.rules.own_loops import own_loops
from metasched.rules.tensor_operands import divide, fits_of, obstacle_to_fit, prepare

import metasched as ms

UNUSED, UNFUSED, FUSED = "none", "none", "with the tile"


@ms.rule
def tensor_windows(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    intrinsics: tuple[str, ...] = (),
    rows: tuple[int, ...] = (2, 14),
    most_padding: float = 2.0,
    most_uses: int = 32,
) -> ms.Skip | None:
    """Sum windows with a tensor intrinsic that has no rows: each lane multiplies its own elements, as of a channel.

    A window's terms are uses of the instruction one after another, of which neighbouring windows share what they read:
    so all terms of a result come first, and a tile of windows is unrolled around them. What is summed over is padded to
    the intrinsic's size. Structural choices: whether to use the intrinsic, and whether its consumer is computed with
    the tile.

    Few operators: those of the library are of floats unless a type is given; layers of quantised networks are of bytes.

    Args:
        intrinsics: names of the intrinsics to try.
        rows: the largest numbers of windows in a tile: along the block's last variable of these, and the one before.
        most_padding: how many times as much as needed may be computed.
        most_uses: the largest number of uses for one result.
    """
    info = sch.describe(block)
    reason = obstacle_to_tiles(sch, block, info)
    if reason is not None:
        return ms.skip(reason)
    try:
        fit = _find_fit(sch, block, intrinsics)
    except ms.ScheduleError as error:
        return ms.skip(error.message)
    reason = obstacle_to_fit(sch, block, fit, most_padding) or _find_mismatch(info, fit, most_uses)
    if reason is not None:
        return ms.skip(reason)
    steps = partial(_tile, block=block, fit=fit, rows=rows)
    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(f"`{fit.intrinsic.name}` cannot be used: {refusal}")
    if sch.choose("windows", [fit.intrinsic.name, UNUSED]) == UNUSED:
        return None
    nest = steps(sch)
    sch.add_fact(block, Tiled(tuple(nest.outer)))
    sch.add_fact(block, Vectorized())
    _fuse(sch, block, nest.inner[-1])
    return None


def _find_fit(sch: ms.Schedule, block: ms.BlockRV, intrinsics: tuple[str, ...]) -> ms.TensorFit:
    fits: tuple[ms.TensorFit, ...] = fits_of(sch, block, intrinsics)
    return next((fit for fit in fits if not fit.fused and fit.operands[1].ready), fits[0])


def _find_mismatch(info: ms.BlockInfo, fit: ms.TensorFit, most_uses: int) -> str | None:
    name = fit.intrinsic.name
    if fit.fused or not fit.operands[1].ready:
        return f"`{fit.operands[1].buffer}` does not lie as `{name}` takes it"
    if not any(_is_row(fit, it.name) for it in info.spatial if it.extent != 1):
        return "each of its results has operands of its own"
    terms = 1
    for it in info.reduction:
        axis = fit.axis_of(it.name)
        terms *= (it.extent or most_uses + 1) if axis is None else axis.padded // axis.size
    return f"its windows take {terms} uses of `{name}`" if terms > most_uses else None


def _is_row(fit: ms.TensorFit, name: str) -> bool:
    """Whether a variable indexes the result, and not all that lanes run along: the others are used again."""
    uses = fit.uses.get(name, frozenset())
    return 0 in uses and not fit.uses[fit.axis_of_lanes.iters[0]] <= uses


@dataclass
class _Nest:
    """The loops of a block by what they are for, each outermost first."""

    outer: list[ms.LoopRV] = field(default_factory=list)
    inner: list[ms.LoopRV] = field(default_factory=list)
    tile: list[ms.LoopRV] = field(default_factory=list)
    terms: list[ms.LoopRV] = field(default_factory=list)
    uses: dict[str, ms.LoopRV] = field(default_factory=dict)


def _tile(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit, rows: tuple[int, ...]) -> _Nest:
    """Prepare the operands and tile the block. Raises ScheduleError."""
    divide(sch, block)
    nest = _split(sch, block, prepare(sch, block, fit), rows)
    uses = [nest.uses[axis] for axis in fit.intrinsic.block_axes]
    sch.reorder(*nest.outer, *nest.inner, *reversed(nest.tile), *nest.terms, *uses)
    sch.tensorize(uses[0], fit.intrinsic.name)
    for loop in (*nest.tile, *nest.terms):
        sch.unroll(loop)
    return nest


def _split(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit, rows: tuple[int, ...]) -> _Nest:
    """Threads share all but the last of several variables of windows: tiles along it follow one another."""
    nest, info = _Nest(), sch.describe(block)
    moving = [it.name for it in info.spatial if it.extent != 1 and _is_row(fit, it.name)]
    sizes = dict(zip(reversed(moving), rows, strict=False))
    for loop, it in zip(own_loops(sch, block, info), info.iters, strict=True):
        axis = fit.axis_of(it.name)
        if axis is not None:
            loop, *own = sch.split(loop, [None, *axis.sizes])
            nest.uses.update(zip(axis.axes, own, strict=True))
        if it.reduces:
            nest.terms.append(loop)
        elif it.name in sizes:
            around, within = sch.split(loop, sch.sample_tile(loop, parts=2, innermost=sizes[it.name]))
            (nest.inner if it.name == moving[-1] and len(moving) > 1 else nest.outer).append(around)
            nest.tile.append(within)
        elif axis is not None:
            around, within = sch.split(loop, sch.sample_tile(loop, parts=2, perfect=True))
            nest.outer.append(around)
            nest.inner.append(within)
        else:
            nest.outer.append(loop)
    return nest


def _fuse(sch: ms.Schedule, block: ms.BlockRV, loop: ms.LoopRV) -> None:
    """Compute the only consumer, if it is no reduction, with the tile where that is legal."""
    readers = [sch.get_block(name) for name in sch.describe(block).readers]
    if len(readers) != 1 or sch.describe(readers[0]).reduces or not sch.describe(readers[0]).trivial:
        return
    reader = readers[0]
    if sch.refusal(lambda on: on.reverse_compute_at(reader, loop)) is not None:
        return
    if sch.choose("fusion", [FUSED, UNFUSED]) == FUSED:
        sch.reverse_compute_at(reader, loop)
