"""The loops around a tensor intrinsic: two levels of tiles, the reduction, and a tile of accumulators."""

from __future__ import annotations

from dataclasses import dataclass, field

from metasched.rules.own_loops import own_loops
from metasched.rules.tensor_operands import divide, prepare

import metasched as ms

Level = list[ms.LoopRV]


@dataclass(frozen=True)
class Largest:
    """The largest sizes in a tile of accumulators: along the last variables of rows, from the last one outwards, along
    columns, and along the reduction."""

    rows: tuple[int, ...]
    columns: int
    steps: int


@dataclass
class _Nest:
    """The loops of a block by what they are for, each outermost first; `uses` are the instruction's, by its axes."""

    outer: Level = field(default_factory=list)
    columns: Level = field(default_factory=list)
    rows: Level = field(default_factory=list)
    reduction: Level = field(default_factory=list)
    steps: Level = field(default_factory=list)
    tile: Level = field(default_factory=list)
    uses: dict[str, ms.LoopRV] = field(default_factory=dict)

    @property
    def second(self) -> Level:
        """The inner of the two levels outside: all of a thread's rows use a panel of columns before the next one."""
        return [*self.columns, *self.rows]


def tile(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit, largest: Largest) -> list[Level]:
    """Prepare the operands and tile the block; the loops of the two levels outside. Raises ScheduleError."""
    if fit.intrinsic.flushes_denormals:
        sch.annotate(block, "flush_denormals", True)
    divide(sch, block)
    fit = prepare(sch, block, fit)
    nest = _split(sch, block, fit, largest)
    uses = [nest.uses[axis] for axis in fit.intrinsic.block_axes]
    sch.reorder(*nest.outer, *nest.second, *nest.reduction, *nest.steps, *nest.tile, *uses)
    sch.tensorize(uses[0], fit.intrinsic.name)
    for loop in (*nest.steps, *nest.tile):
        sch.unroll(loop)
    return [nest.outer, nest.second]


def _split(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit, largest: Largest) -> _Nest:
    nest, info = _Nest(), sch.describe(block)
    sizes = _sizes(info, fit, largest)
    for loop, it in zip(own_loops(sch, block, info), info.iters, strict=True):
        axis = fit.axis_of(it.name)
        if axis is not None:
            loop, *own = sch.split(loop, [None, *axis.sizes])
            nest.uses.update(zip(axis.axes, own, strict=True))
        if it.reduces and axis is not None:
            loop, step = sch.split(loop, sch.sample_tile(loop, parts=2, innermost=largest.steps, perfect=True))
            nest.steps.append(step)
        if it.reduces:
            nest.reduction.append(loop)
        elif it.extent == 1:
            nest.outer.append(loop)
        else:
            size = sizes.get(it.name)
            tiles = sch.sample_tile(loop, parts=2) if size is None else sch.sample_tile(loop, parts=3, innermost=size)
            outer, middle, *inner = sch.split(loop, tiles)
            nest.outer.append(outer)
            (nest.rows if _is_row(fit, it.name) else nest.columns).append(middle)
            nest.tile.extend(inner)
    return nest


def _sizes(info: ms.BlockInfo, fit: ms.TensorFit, largest: Largest) -> dict[str, int]:
    """The largest size of each variable that has a part in the tile of accumulators."""
    moving = [it.name for it in info.spatial if it.extent != 1]
    rows = [name for name in reversed(moving) if _is_row(fit, name)]
    columns = [name for name in moving if name in fit.axis_of_lanes.iters]
    return {**dict(zip(rows, largest.rows, strict=False)), **dict.fromkeys(columns, largest.columns)}


def _is_row(fit: ms.TensorFit, name: str) -> bool:
    """Whether a variable indexes the result, and of the operands only those that the lanes do not run along."""
    lanes = fit.uses[fit.axis_of_lanes.iters[0]]
    return fit.uses[name] & lanes == {0}
