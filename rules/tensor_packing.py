"""The nest that packs an operand for a tensor intrinsic: in the order of the copy, in vectors, on all threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from metasched.rules.facts import Vectorized

import metasched as ms

# Elements below which starting threads takes longer than the copy, and iterations for each thread above it.
_SMALL, _SHARES = 1 << 14, 4
# Elements of a vector below which they are copied one by one; and the longest loop to be unrolled for that.
_FEWEST_LANES, _UNROLLED = 8, 512


@dataclass(frozen=True)
class _Loops:
    """Loops of a copy, outermost first, and their extents."""

    loops: list[ms.LoopRV]
    extents: list[int]


def pack(sch: ms.Schedule, copy: ms.BlockRV, operand: ms.TensorOperand) -> None:
    """Lay a copy out as an intrinsic takes it, unless it does already, and schedule its nest. Raises ScheduleError."""
    if operand.ready or not operand.digits:
        copy_rows(sch, copy)
        return
    info = sch.describe(copy)
    sch.transform_layout(copy, operand.layout)
    nest = _in_order(sch, copy, operand, [it.extent or 1 for it in info.iters])
    _run(sch, copy, _in_vectors(sch, nest, sch.target.lanes(info.dtype)))


def copy_rows(sch: ms.Schedule, copy: ms.BlockRV) -> None:
    """Schedule the nest of a copy that lies as it is indexed. Raises ScheduleError."""
    info = sch.describe(copy)
    _run(sch, copy, _Loops(list(sch.get_loops(copy)), [it.extent or 1 for it in info.iters]))


def _run(sch: ms.Schedule, copy: ms.BlockRV, nest: _Loops) -> None:
    """Vectors along the innermost loop, and threads over the outermost ones.

    Where there would be a gather instead of vectors, the loop is unrolled: then where its elements are is known.
    """
    *outer, inner = nest.loops
    lanes = _lanes(sch, copy)
    if lanes >= _FEWEST_LANES:
        sch.vectorize(inner, lanes=lanes)
    elif nest.extents[-1] <= _UNROLLED:
        sch.unroll(inner)
    sch.add_fact(copy, Vectorized())
    shared = _shared(nest.extents[: len(outer)], sch.target.threads)
    if shared and prod(nest.extents) >= _SMALL:
        sch.parallel(sch.fuse(*outer[:shared]) if shared > 1 else outer[0])


def _lanes(sch: ms.Schedule, copy: ms.BlockRV) -> int:
    """How many elements a vector of a copy has.

    Where its innermost variable was fused, and so is divided to index what it reads, they are as many as never go
    beyond the last dimension of that: these lie one after another, others are gathered.
    """
    info = sch.describe(copy)
    lanes, inner = sch.target.lanes(info.dtype), info.iters[-1].name
    for read in info.reads:
        divided = sum(inner in use for use in read.uses) > 1
        if divided and inner in read.uses[-1]:
            lanes = gcd(lanes, read.shape[-1] or 1)
    return lanes


def _in_order(sch: ms.Schedule, copy: ms.BlockRV, operand: ms.TensorOperand, extents: Sequence[int]) -> _Loops:
    """One loop for each part of an index, in the order in which the parts lie in memory."""
    parts: dict[tuple[int, int], tuple[ms.LoopRV, int]] = {}
    for dim, loop in enumerate(sch.get_loops(copy)):
        own = sorted((d for d in operand.digits if d.dim == dim), key=lambda d: -d.divisor)
        inner = [d.modulo for d in own if d.modulo is not None]
        loops = sch.split(loop, [None, *inner]) if inner else [loop]
        sizes = [-(-extents[dim] // own[0].divisor), *inner]
        parts.update(((dim, d.divisor), found) for d, found in zip(own, zip(loops, sizes, strict=True), strict=True))
    ordered = [parts[d.dim, d.divisor] for d in operand.digits]
    sch.reorder(*(loop for loop, _ in ordered))
    return _Loops([loop for loop, _ in ordered], [extent for _, extent in ordered])


def _in_vectors(sch: ms.Schedule, nest: _Loops, lanes: int) -> _Loops:
    """The innermost loops that one vector holds as one."""
    count, elements = 1, nest.extents[-1]
    while count < len(nest.loops) and elements * nest.extents[-count - 1] <= lanes:
        elements *= nest.extents[-count - 1]
        count += 1
    if count == 1:
        return nest
    return _Loops([*nest.loops[:-count], sch.fuse(*nest.loops[-count:])], [*nest.extents[:-count], elements])


def _shared(extents: Sequence[int], threads: int) -> int:
    """How many outermost loops threads share."""
    for count in range(1, len(extents) + 1):
        if prod(extents[:count]) >= _SHARES * threads:
            return count
    return len(extents)
