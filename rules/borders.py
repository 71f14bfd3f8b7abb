"""Padding read where it is needed, and borders as nests of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from metasched.rules.consumers import elementwise_consumer
from metasched.rules.facts import Threaded, Vectorized
from metasched.rules.own_loops import own_loops

import metasched as ms

APART, COLUMNS, COPIED = "apart", "columns apart", "copied"
UNROLLED = 8  # Vectors of a row of a tile: its sums are in registers only if no loop goes over them.


@ms.rule
def borders(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    reuse: int = 64,
    tile: int = 8,
    terms: int = 64,
    lanes: tuple[int, ...] = (8, 16, 32),
    small: int = 1 << 16,
) -> ms.Skip | None:
    """Store no padded copy: read the input under conditions, and partition the loops so that the inside has none.

    For reductions that read each padded element a few times, such as depthwise convolutions and pooling: the copy would
    take about as long. Elements are tiled in two levels, the inner tile and the terms are unrolled, and vectors run
    along the last dimension; the last two of the other dimensions are partitioned where a tile no longer meets a
    border, or only the last of them, so that threads share the borders of the other, under conditions. Terms are then
    added column by column: what is read of a column is used for all rows of the tile at once. A structural choice
    between these two and whatever other rules make of the padded copy.

    Args:
        reuse: how often a padded element may be read.
        tile: the largest inner tile of a dimension.
        terms: the most terms that are unrolled.
        lanes: what the vector width may be.
        small: instances below which the nest stays serial.
    """
    info = sch.describe(block)
    padding = _padding(sch, info, reuse)
    reason = _find_obstacle(info, terms) or (
        None if padding else "it reads no padding that is cheaper to read than to copy"
    )
    reason = reason or sch.refusal(partial(_inline, padding=padding))
    if reason is not None:
        return ms.skip(reason)
    trial = sch.trial()
    _inline(trial, padding)
    found = trial.describe(trial.get_block(info.name)).inside
    inside = {name: (where.low, where.high) for name, where in found.items() if where.low < where.high}
    bordered = [it.name for it in info.spatial[:-1] if inside.get(it.name, (0, it.extent)) != (0, it.extent)]
    if not bordered or info.spatial[-1].name in found:
        return ms.skip("no dimension but the last has borders" if not bordered else "vectors would run across borders")
    nest = _Nest(block, info, inside, tuple(bordered[-2:]), tile, lanes, small, elementwise_consumer(trial, info))
    if nest.consumer is not None and trial.refusal(nest.make) is not None:
        nest = replace(nest, consumer=None)
    reason = trial.refusal(nest.make)
    if reason is not None:
        return ms.skip(reason)
    how = sch.choose("borders", [COPIED, APART, *([COLUMNS] if len(bordered) > 1 else [])])
    if how == COPIED:
        return None
    _inline(sch, padding)
    (nest if how == APART else replace(nest, bordered=nest.bordered[-1:], by_columns=True)).make(sch)
    return None


def _find_obstacle(info: ms.BlockInfo, terms: int) -> str | None:
    if not info.reduces or not info.initialises or info.positions:
        return "it is not a reduction"
    if not info.trivial:
        return "it is scheduled already"
    if len(info.spatial) < 2:
        return "its result has one dimension"
    return None if (info.size(info.reduction) or terms + 1) <= terms else "it has many terms"


def _padding(sch: ms.Schedule, info: ms.BlockInfo, reuse: int) -> list[str]:
    """The blocks of padding that it reads, each element a few times."""
    found = []
    for name in info.sources:
        source = sch.describe(sch.get_block(name))
        few = (info.instances or 0) <= reuse * (source.instances or 0)
        if source.conditional and not source.reduces and source.trivial and few:
            found.append(name)
    return found


def _inline(sch: ms.Schedule, padding: list[str]) -> None:
    for name in padding:
        sch.compute_inline(sch.get_block(name))


@dataclass(frozen=True)
class _Nest:
    """The nest of a block whose padding is inlined; loops over `bordered` are partitioned.

    `consumer` is computed from each tile while that is in registers. `by_columns`: the last variable of the terms is
    the outermost.
    """

    block: ms.BlockRV
    info: ms.BlockInfo
    inside: Mapping[str, tuple[int, int]]
    bordered: tuple[str, ...]
    tile: int
    lanes: tuple[int, ...]
    small: int
    consumer: ms.BlockRV | None = None
    by_columns: bool = False

    def make(self, sch: ms.Schedule) -> None:
        nest = {self.info.name} | (set() if self.consumer is None else set(self.info.readers))
        apart = set(sch.block_names()) - nest
        own = own_loops(sch, self.block, self.info)
        loops = dict(zip((it.name for it in self.info.iters), own, strict=True))
        *others, last = self.info.spatial
        outer, inner, sizes = self._tile_loops(sch, {it.name: loops[it.name] for it in others})
        widths = sch.sample_tile(loops[last.name], parts=2, innermost=64, step=sch.target.lanes(self.info.dtype))
        columns, lane = sch.split(loops[last.name], widths)
        terms = [loops[it.name] for it in self.info.reduction]
        if self.by_columns:
            terms.reverse()
        sch.reorder(*outer.values(), columns, *terms, *inner, lane)
        count = sch.sample_categorical(list(self.lanes), name="lanes")
        if self.consumer is not None:
            _compute_in_tile(sch, self.consumer, columns, count)
        for loop in (*terms, *inner):
            sch.unroll(loop)
        sch.vectorize(lane, lanes=count)
        sch.annotate(self.block, "unroll_limit", UNROLLED)
        for name in reversed(self.bordered):
            _, outer[name], _ = sch.loop_partition(outer[name], self._points(name, sizes[name]))
        if (self.info.instances or self.small) >= self.small:
            sch.parallel(outer[next(iter(sizes), others[0].name)])
        for name in sch.block_names():
            if name not in apart:
                sch.add_fact(sch.get_block(name), Vectorized())
                sch.add_fact(sch.get_block(name), Threaded())

    def _tile_loops(
        self, sch: ms.Schedule, loops: dict[str, ms.LoopRV]
    ) -> tuple[dict[str, ms.LoopRV], list[ms.LoopRV], dict[str, ms.Int]]:
        """Loops over tiles by variable, loops inside a tile, and sizes of tiles; an extent of one is not tiled."""
        extents = {it.name: it.extent for it in self.info.spatial}
        outer: dict[str, ms.LoopRV] = {}
        inner: list[ms.LoopRV] = []
        sizes: dict[str, ms.Int] = {}
        for name, loop in loops.items():
            if extents[name] == 1:
                outer[name] = loop
                continue
            parts = sch.sample_tile(loop, parts=2, innermost=self.tile)
            outer[name], own = sch.split(loop, parts)
            inner.append(own)
            sizes[name] = parts[-1]
        return outer, inner, sizes

    def _points(self, name: str, size: ms.Int) -> list[ms.Int]:
        """The first tile that does not meet the border before it, and the first that meets the one behind."""
        low, high = self.inside[name]
        first = ms.ceildiv(low, size)
        return [first, ms.maximum(first, high // size)]


def _compute_in_tile(sch: ms.Schedule, consumer: ms.BlockRV, columns: ms.LoopRV, lanes: ms.Int) -> None:
    """Compute a consumer from each tile of elements, unrolled as the tile is."""
    outside = len(sch.get_loops(consumer))
    sch.reverse_compute_at(consumer, columns)
    *inner, lane = sch.get_loops(consumer)[-outside:]
    for loop in inner:
        sch.unroll(loop)
    sch.vectorize(lane, lanes=lanes)
