"""One random attempt at every primitive: a table, with an entry for each of the registry's.

An entry tries arguments that may well be legal on a random block and loop; what is refused is passed over. A test
compares the table with the registry, so that a new primitive cannot be forgotten here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

import metasched as ms
from metasched.errors import ScheduleError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import LoopKind
from metasched.schedule.analysis import BlockInfo
from metasched.schedule.trace import Schedule
from metasched.schedule.values import BlockRV, LoopRV

T = TypeVar("T")


@dataclass
class Spot:
    """A schedule, a random stream, and a random block of the program to try something on."""

    sch: Schedule
    rng: np.random.Generator

    def pick(self, options: Sequence[T]) -> T:
        if not options:
            raise ScheduleError("fuzz", "there is nothing to choose from")
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def number(self, low: int, high: int) -> int:
        """Both ends included."""
        if low > high:
            raise ScheduleError("fuzz", "there is nothing to choose from")
        return int(self.rng.integers(low, high + 1))

    @cached_property
    def block(self) -> BlockRV:
        return self.sch.get_block(self.pick(self.sch.block_names()))

    def on(self, wanted: Callable[[BlockInfo], bool]) -> Spot:
        """The same, on a block of which something is true, if there is one."""
        found = [n for n in self.sch.block_names() if wanted(self.sch.describe(self.sch.get_block(n)))]
        spot = Spot(self.sch, self.rng)
        if found:
            spot.__dict__["block"] = self.sch.get_block(self.pick(found))
        return spot

    @cached_property
    def info(self) -> BlockInfo:
        return self.sch.describe(self.block)

    @cached_property
    def loops(self) -> list[LoopRV]:
        loops: list[LoopRV] = self.sch.get_loops(self.block)
        if not loops:
            raise ScheduleError("fuzz", "the block is in no loop")
        return loops

    @property
    def loop(self) -> LoopRV:
        return self.pick(self.loops)

    @property
    def near(self) -> LoopRV:
        """A loop of a block that this one reads from, or that reads it."""
        names = (*self.info.readers, *self.info.sources) or (self.info.name,)
        return self.pick(self.sch.get_loops(self.sch.get_block(self.pick(names))))

    @property
    def reader_loop(self) -> LoopRV:
        names = self.info.readers or (self.info.name,)
        return self.pick(self.sch.get_loops(self.sch.get_block(self.pick(names))))

    @property
    def source_loop(self) -> LoopRV:
        names = self.info.sources or (self.info.name,)
        return self.pick(self.sch.get_loops(self.sch.get_block(self.pick(names))))

    @property
    def reduction_loop(self) -> LoopRV:
        """A loop that a reduction of the block runs over, if there is one."""
        over = [
            handle
            for handle, name in zip(self.loops, self.info.loops, strict=True)
            if any(it.reduces for it in self.info.iter_of(name))
        ]
        return self.pick(over or self.loops)

    @property
    def read(self) -> str:
        return self.pick([r.buffer for r in self.info.reads] or ["nothing"])

    @property
    def scope(self) -> str:
        return self.pick(["global", "local", "local", "register"])

    @property
    def factors(self) -> list[int | None]:
        kind = self.number(0, 5)
        inner = [self.number(1, 6) for _ in range(1 if kind < 4 else 2)]
        if kind == 0:
            return [inner[0], None]
        if kind == 5:
            return [self.number(1, 3), None, inner[0]]
        return [None, *inner]


Action = Callable[[Spot], object]


def _reorder(s: Spot) -> None:
    chosen = [s.loops[n] for n in s.rng.permutation(len(s.loops))[: s.number(2, 4)]]
    s.sch.reorder(*chosen)


def _fuse(s: Spot) -> None:
    at = s.number(0, max(0, len(s.loops) - 2))
    s.sch.fuse(*s.loops[at : at + s.number(1, 3)])


def _tile(s: Spot) -> None:
    """Split by a sampled tile, as rules do."""
    loop = s.loop
    s.sch.split(loop, s.sch.sample_tile(loop, parts=s.number(2, 3), innermost=s.pick([4, 64]), perfect=s.chance(0.2)))


def _vectorize(s: Spot) -> None:
    s.sch.vectorize(s.loops[-1] if s.chance(0.6) else s.loop, lanes=s.pick([1, 2, 3, 4, 8, 12, 16, 24]))


def _vectorize_around(s: Spot) -> None:
    """A loop of a reader, around a reduction of which each iteration computes what it reads."""
    s = s.on(lambda info: info.reduces and bool(info.readers) and not info.output)
    around = s.reader_loop
    s.sch.compute_at(s.block, around)
    inside = s.sch.get_loops(s.block)
    inside = inside[[loop.label for loop in inside].index(around.label) + 1 :]
    shown = s.chance(0.5)
    if shown:
        s.sch.vectorize(around, lanes=s.pick([2, 4, 8, 16]))
    if s.chance(0.3):
        s.sch.decompose_reduction(s.block, s.pick(inside))
    elif len(inside) > 1:
        s.sch.reorder(*[inside[n] for n in s.rng.permutation(len(inside))])
    if not shown:
        s.sch.vectorize(around, lanes=s.pick([2, 4, 8, 16]))


def _lanes(s: Spot) -> None:
    s.sch.vectorize(s.loops[-1], lanes=s.sch.sample_categorical([2, 4, 8]))


def _annotate(s: Spot) -> None:
    s.sch.annotate(s.block if s.chance(0.6) else s.loop, "unroll_limit", s.pick([0, 4, 16, 64]))


def _decide(s: Spot) -> None:
    """How a block stores or computes, or what its loop asks for ahead."""
    key = s.pick(["non_temporal", "prefetch", "prefetch_tile", "fastmath", "blocked_sum"])
    if key in ("prefetch", "prefetch_tile"):
        s.sch.annotate(s.loop, key, s.number(0, 4))
        return
    if key == "blocked_sum":
        s.sch.annotate(s.on(lambda info: info.reduces).block, key, s.pick([2, 3, 8]))
        return
    s = s.on(lambda info: info.output and not info.readers) if key == "non_temporal" else s
    if key == "non_temporal" and s.chance(0.7):
        s.sch.vectorize(s.loops[-1], lanes=s.pick([2, 4, 8, 16]))
    s.sch.annotate(s.block, key, True)


def _cache_at(s: Spot, cached: BlockRV, loop: LoopRV) -> None:
    if s.chance(0.6):
        s.sch.compute_at(cached, loop)


def _located(s: Spot) -> None:
    move = s.sch.reverse_compute_at if s.info.output else s.sch.compute_at
    move(s.block, s.sch.sample_compute_location(s.block))


def _located_at_source(s: Spot) -> None:
    s = s.on(lambda info: bool(info.sources))
    source = s.sch.get_block(s.pick([*(s.info.sources or s.sch.block_names())]))
    s.sch.reverse_compute_at(s.block, s.sch.sample_compute_location(s.block, source))


def _located_together(s: Spot) -> None:
    """A producer, and another one of it or of what reads it."""
    s = s.on(lambda info: bool(info.readers) and not info.output)
    names = s.sch.block_names()
    reader = s.sch.describe(s.sch.get_block((s.info.readers or names)[0]))
    other = s.sch.get_block(s.pick([*s.info.sources, *reader.sources] or [*names]))
    where = s.sch.sample_compute_location(s.block, then=[other])
    for block in (s.block, other):
        s.sch.compute_at(block, where)


def _padding(s: Spot) -> None:
    s = s.on(lambda info: info.reduces and info.trivial)
    s.sch.pad_einsum(s.block, [s.pick([1, 2, 4, 5]) for _ in s.info.iters])


def _partitioned(s: Spot) -> None:
    parts = s.number(2, 3)
    sizes = s.sch.sample_partitioned_tile(s.loop, parts, s.number(1, parts - 1), s.pick([1, 2, 4]))
    s.sch.split(s.loop, sizes)


def _slide(s: Spot) -> None:
    """Computed under a loop, and stored further out: where it is legal, a window slides."""
    s = s.on(lambda info: bool(info.readers) and not info.output)
    loops = s.sch.get_loops(s.sch.get_block(s.info.readers[0] if s.info.readers else s.info.name))
    at = s.number(0, min(2, len(loops) - 1))
    s.sch.compute_at(s.block, loops[at])
    s.sch.store_at(s.block, s.pick(["root", "root", *loops[:at]]))


def _partition(s: Spot) -> None:
    points: list[Any] = sorted(s.number(0, 6) for _ in range(s.number(0, 2)))
    if s.chance(0.3):
        tile = s.sch.sample_categorical([1, 2, 3, 5], name="tile")
        outer, _ = s.sch.split(s.loop, [None, tile])
        first = ms.ceildiv(s.number(0, 2), tile)
        s.sch.loop_partition(outer, [first, ms.maximum(first, s.number(0, 4) // tile)])
    else:
        s.sch.loop_partition(s.loop, points)


def _sizes(s: Spot) -> list[int]:
    return [as_int(e) or 1 for e in s.sch.func.buffer(s.info.writes).shape]


def _map(s: Spot, extents: Sequence[int | None]) -> list[Any]:
    """An index map and its sizes: another order, a dimension in tiles, two dimensions as one, or turned around."""
    names = [f"x{n}" for n in range(len(extents))]
    at = s.number(0, len(names) - 1)
    tile = s.pick([s.number(2, 5), "t"])
    tiled = [*names[:at], f"{names[at]} // {tile}", f"{names[at]} % {tile}", *names[at + 1 :]]
    out = s.pick([[names[n] for n in s.rng.permutation(len(names))], tiled, [*tiled[1:], tiled[0]]])
    if len(names) > 1 and s.chance(0.3):
        fused = f"{names[0]}*{extents[1] or 1} + {names[1]}"
        out = [fused, *names[2:]]
    text = f"{', '.join(names)} -> {', '.join(out)}"
    return [text, s.sch.sample_categorical([1, 2, 4, 7])] if " t" in text else [text]


def _note(s: Spot) -> None:
    """A note, and most often taken back."""
    target = s.block if s.chance(0.5) else s.loop
    s.sch.annotate(target, "unroll_limit", 8)
    if s.chance(0.7):
        s.sch.unannotate(target, "unroll_limit")


def _is_intermediate(info: BlockInfo) -> bool:
    return not info.output and len(info.iters) > 1


def _layout(s: Spot) -> None:
    s.sch.transform_layout(s.block, *_map(s, _sizes(s)))


def _align(s: Spot) -> None:
    s.sch.storage_align(s.block, s.number(0, 1), s.pick([4, 16]), s.number(0, 3))


def _fill(s: Spot) -> None:
    s.sch.decompose_padding(s.block, s.loop)


def _tensorize(s: Spot) -> None:
    """A nest of the shape that the intrinsics of the host compute, if the block is a dot product of bytes."""
    s = s.on(lambda info: info.reduces)
    if len(s.loops) < 2:
        return
    j, k = s.loops[-2:]
    j_0, j_1 = s.sch.split(j, [None, 16])
    k_0, k_1 = s.sch.split(k, [None, 4])
    s.sch.reorder(j_0, k_0, j_1, k_1)
    s.sch.tensorize(j_1, "dot_u8i8_vnni")


def _winograd(s: Spot) -> None:
    s = s.on(lambda info: info.reduces and info.trivial)
    s.sch.winograd(s.block, s.pick([2, 3, 4]))


def _skip_padding(s: Spot) -> None:
    s = s.on(lambda info: info.reduces and info.trivial)
    s.sch.skip_padding(s.block, s.pick([1, 1, 2]))


def _epilogue(s: Spot) -> None:
    s = s.on(lambda info: info.reduces and len(info.readers) == 1)
    s.sch.fuse_reduction_epilogue(s.block, s.sch.get_block(s.pick(s.info.readers or (s.info.name,))))


def _partial_maxima(s: Spot) -> None:
    """Partial results of a maximum and of a sum relative to it, or of any two reductions."""
    maxima = s.on(lambda info: info.reduces and info.compares)
    readers = [n for n in s.sch.block_names() if maxima.info.name in s.sch.describe(s.sch.get_block(n)).sources]
    sums, inner = s.sch.get_block(s.pick(readers)), s.number(1, 5)
    partial = []
    for block in (maxima.block, sums):
        outer, _ = s.sch.split(s.pick(s.sch.get_loops(block)[-1:]), [None, inner])
        partial.append(s.sch.rfactor(outer))
    s.sch.use_partial_maxima(partial[1], partial[0])


def _decompose_scan(s: Spot) -> None:
    spot = s.on(lambda info: info.reduces and info.conditional)
    s.sch.decompose_scan(spot.block, s.number(2, 6))


def _carry(s: Spot) -> None:
    """A running reduction goes on from element to element, mostly with its columns inside."""
    s = s.on(lambda info: info.reduces and info.conditional and len(info.spatial) > 1)
    if s.chance(0.7) and len(s.loops) > 2:
        s.sch.reorder(*s.loops[:-2], s.loops[-1], s.loops[-2])
    s.sch.carry(s.loop)


def _scatter(s: Spot) -> None:
    """At the loop over places, mostly inside all that decide them."""
    spot = s.on(lambda info: bool(info.places))
    places = [
        handle
        for handle, name in zip(spot.loops, spot.info.loops, strict=True)
        if {it.name for it in spot.info.iter_of(name)} & spot.info.places.keys()
    ]
    place = spot.pick(places or spot.loops)
    if spot.chance(0.8):
        s.sch.reorder(*[loop for loop in spot.loops if loop is not place], place)
    s.sch.scatter(place)


def _merge(s: Spot) -> None:
    """Neighbouring nests, each on all threads where it may be, in one region; now and then without one between."""
    found: dict[str, LoopRV] = {}
    for name in s.sch.block_names():
        block = s.sch.get_block(name)
        info = s.sch.describe(block)
        if info.loops and info.loops[0] not in found:
            loop = s.sch.get_loops(block)[0]
            if info.kinds[0] is LoopKind.SERIAL and s.sch.refusal(lambda sch, loop=loop: sch.parallel(loop)) is None:
                s.sch.parallel(loop)
            found[info.loops[0]] = loop
    start = s.number(0, max(len(found) - 2, 0))
    together = list(found.values())[start : s.number(start + 2, max(len(found), start + 2))]
    s.sch.merge_parallel(*(loop for loop in together if s.chance(0.9)))


# One entry a primitive. Some are tried in the form in which rules use them, where bare ones would seldom be legal.
ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "split": (lambda s: s.sch.split(s.loop, s.factors),) * 3,
    "sample_tile": (_tile,) * 2,
    "fuse": (_fuse,) * 2,
    "reorder": (_reorder,) * 3,
    "parallel": (lambda s: s.sch.parallel(s.loops[0] if s.chance(0.6) else s.loop),) * 2,
    "merge_parallel": (_merge,) * 2,
    "vectorize": (*(_vectorize,) * 2, *(_vectorize_around,) * 2),
    "sample_categorical": (_lanes,),
    "unroll": (lambda s: s.sch.unroll(s.loop),),
    "scatter": (_scatter,),
    "carry": (_carry,),
    "annotate": (_annotate, _decide),
    "set_scope": (lambda s: s.sch.set_scope(s.block, s.scope),),
    "compute_at": (lambda s: s.sch.compute_at(s.block, s.reader_loop),) * 3,
    "reverse_compute_at": (lambda s: s.sch.reverse_compute_at(s.block, s.source_loop),) * 3,
    "compute_inline": (lambda s: s.sch.compute_inline(s.block),),
    "reverse_compute_inline": (lambda s: s.sch.reverse_compute_inline(s.block),),
    "cache_read": (
        lambda s: s.sch.cache_read(s.block, s.read, scope=s.scope),
        lambda s: _cache_at(s, s.sch.cache_read(s.block, s.read, scope=s.scope), s.loop),
    ),
    "cache_write": (
        lambda s: s.sch.cache_write(s.block, scope=s.scope),
        lambda s: s.sch.reverse_compute_at(s.sch.cache_write(s.block, scope=s.scope), s.loop),
    ),
    "rfactor": (lambda s: s.sch.rfactor(s.reduction_loop, axis=s.number(0, 1)),) * 2,
    "decompose_reduction": (lambda s: s.sch.decompose_reduction(s.block, s.loop),) * 2,
    "add_unit_loop": (lambda s: s.sch.add_unit_loop(s.block if s.chance(0.5) else s.loop),),
    "unannotate": (_note,),
    "reindex": (lambda s: s.sch.reindex(s.block, s.pick([s.read, s.info.writes])),),
    "transform_layout": (lambda s: _layout(s.on(_is_intermediate)),) * 2,
    "transform_block_layout": (
        lambda s: s.sch.transform_block_layout(s.block, *_map(s, [it.extent for it in s.info.iters])),
    ),
    "storage_align": (lambda s: _align(s.on(_is_intermediate)),),
    "pad_einsum": (_padding,),
    "decompose_padding": (lambda s: _fill(s.on(lambda info: info.conditional and not info.reduces)),) * 2,
    "loop_partition": (_partition, lambda s: s.sch.loop_partition(s.loop)),
    "store_at": (_slide,) * 2,
    "fuse_reduction_epilogue": (_epilogue,),
    "sample_partitioned_tile": (_partitioned,),
    "tensorize": (_tensorize,),
    "winograd": (_winograd,),
    "skip_padding": (_skip_padding,),
    "use_partial_maxima": (_partial_maxima,),
    "decompose_scan": (_decompose_scan,),
    "sample_compute_location": (_located, _located_at_source, _located_together),
}
# Queries that every attempt begins with, and what has a method of its own.
LOOKING: Mapping[str, Action] = {
    "get_block": lambda s: s.block,
    "get_loops": lambda s: s.loops,
    "get_producers": lambda s: s.sch.get_producers(s.block),
    "get_consumers": lambda s: s.sch.get_consumers(s.block),
    "choose": lambda s: s.sch.choose("taken", [s.number(0, 3), "other"]),
}
_WEIGHTED: tuple[Action, ...] = (*(a for entry in ACTIONS.values() for a in entry), LOOKING["choose"])


def attempt(sch: Schedule, rng: np.random.Generator) -> Any:
    """Try one action; raises ScheduleError where it is not legal."""
    spot = Spot(sch, rng)
    return spot.pick(_WEIGHTED)(spot)
