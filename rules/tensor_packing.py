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
# How many uses of the intrinsic a panel may be wide, besides one; and how likely it is one.
_WIDER, _NARROW = (2, 4), 0.8


@dataclass(frozen=True)
class _Loops:
    """Loops of a copy, outermost first, and their extents."""

    loops: list[ms.LoopRV]
    extents: list[int]


@dataclass(frozen=True)
class _Panels:
    """Panels that are `uses` of the intrinsic wide, a random variable, along the dimension `dim`.

    `widest` is the largest number that they can be, `size` how many elements one is wide.
    """

    dim: int
    size: int
    uses: ms.Int
    widest: int

    def layout(self, operand: ms.TensorOperand) -> str:
        """The index map of the copy; `t` is the width of a panel in elements."""
        names = [f"d{n}" for n in range(operand.rank)]
        cut = f"{names[self.dim]}{{}}t"
        parts = [
            d.text(names[d.dim]) if d.dim != self.dim else cut.format("//" if d.modulo is None else "%")
            for d in operand.digits
        ]
        return f"{', '.join(names)} -> {', '.join(parts)}"


def pack(sch: ms.Schedule, copy: ms.BlockRV, operand: ms.TensorOperand, columns: int | None) -> None:
    """Lay a copy out as an intrinsic takes it, unless it does already, and schedule its nest.

    `columns` is the dimension that vector lanes run along, if any: it lies in panels, whose width is a random variable.
    Raises ScheduleError.
    """
    if operand.ready or not operand.digits:
        copy_rows(sch, copy)
        return
    info = sch.describe(copy)
    extents = [it.extent or 1 for it in info.iters]
    panels = _panels(sch, info, operand, extents, columns)
    if panels is None:
        sch.transform_layout(copy, operand.layout)
    else:
        sch.transform_layout(copy, panels.layout(operand), panels.uses * panels.size)
        sch.annotate(copy, "unroll_limit", max(_WIDER))
    nest = _order_loops(sch, copy, operand, extents, panels)
    lanes = sch.target.lanes(info.dtype)
    vectors = _vector_loops(sch, nest, lanes)
    beside = _find_neighbours(sch, copy, operand, nest) if vectors.extents[-1] == lanes else None
    if beside is not None and beside.loop < len(vectors.loops) - 1:  # or else it is in the vectors
        vectors = _unroll_neighbours(sch, vectors, beside)
    _schedule_nest(sch, copy, vectors)


def _panels(
    sch: ms.Schedule, info: ms.BlockInfo, operand: ms.TensorOperand, extents: Sequence[int], columns: int | None
) -> _Panels | None:
    """How the columns of a copy are in panels; None where a panel can only be as wide as one use of the intrinsic.

    Uses side by side read one run of memory where they are in one panel. Weights, which are copied ahead, may be in a
    single one; what is copied at every call is written in shares of many panels.
    """
    own = [d for d in operand.digits if d.dim == columns]
    if columns is None or len(own) != 2 or own[0].modulo is not None or own[1].modulo != own[0].divisor:
        return None
    size = own[0].divisor
    count = -(-extents[columns] // size)
    whole = [count] if _reads_constants(sch, info) else []
    wider = [uses for uses in dict.fromkeys([*_WIDER, *whole]) if uses > 1 and count % uses == 0]
    if not wider:
        return None
    seldom = [(1 - _NARROW) / len(wider)] * len(wider)
    uses = sch.sample_categorical([1, *wider], probabilities=[_NARROW, *seldom], name="uses in a panel")
    return _Panels(columns, size, uses, max(wider))


def _reads_constants(sch: ms.Schedule, info: ms.BlockInfo) -> bool:
    """Whether a block reads something, and constant arguments and what is computed of them only."""
    sources = [sch.describe(sch.get_block(name)) for name in info.sources]
    known = {argument.name for argument in sch.program.inputs if argument.const}
    known |= {source.writes for source in sources if _reads_constants(sch, source)}
    return bool(info.reads) and all(read.buffer in known for read in info.reads)


def copy_rows(sch: ms.Schedule, copy: ms.BlockRV) -> None:
    """Schedule the nest of a copy that lies as it is indexed. Raises ScheduleError."""
    info = sch.describe(copy)
    _schedule_nest(sch, copy, _Loops(list(sch.get_loops(copy)), [it.extent or 1 for it in info.iters]))


def _schedule_nest(sch: ms.Schedule, copy: ms.BlockRV, nest: _Loops) -> None:
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
    shared = _count_shared_loops(nest.extents[: len(outer)], sch.target.threads)
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


def _order_loops(
    sch: ms.Schedule, copy: ms.BlockRV, operand: ms.TensorOperand, extents: Sequence[int], panels: _Panels | None
) -> _Loops:
    """One loop for each part of an index, in the order in which the parts lie in memory.

    What is in a panel of several uses is copied a use after another.
    """
    parts: dict[tuple[int, int], list[tuple[ms.LoopRV, int]]] = {}
    for dim, loop in enumerate(sch.get_loops(copy)):
        own = sorted((d for d in operand.digits if d.dim == dim), key=lambda d: -d.divisor)
        inner = [d.modulo for d in own if d.modulo is not None]
        sizes = [-(-extents[dim] // own[0].divisor), *inner]
        if panels is not None and dim == panels.dim:
            outer, use, within = sch.split(loop, [None, panels.uses, panels.size])
            parts[dim, panels.size] = [(outer, sizes[0] // panels.widest)]
            parts[dim, 1] = [(use, panels.widest), (within, sizes[1])]
            continue
        loops = sch.split(loop, [None, *inner]) if inner else [loop]
        parts.update(((dim, d.divisor), [found]) for d, found in zip(own, zip(loops, sizes, strict=True), strict=True))
    ordered = [part for d in operand.digits for part in parts[d.dim, d.divisor]]
    sch.reorder(*(loop for loop, _ in ordered))
    return _Loops([loop for loop, _ in ordered], [extent for _, extent in ordered])


@dataclass(frozen=True)
class _Neighbours:
    """Iterations of the loop number `loop` of a copy that read side by side, so many of them in a run."""

    loop: int
    count: int


def _find_neighbours(sch: ms.Schedule, copy: ms.BlockRV, operand: ms.TensorOperand, nest: _Loops) -> _Neighbours | None:
    """What lies beside that which the lanes of a vector read far apart: units, or elements, of the last dimension of
    what is copied. A unit of it is innermost in the copy, and then another dimension, or another dimension is. Whole
    runs are read then, and transposed in registers."""
    info = sch.describe(copy)
    names = [it.name for it in info.iters]
    uses = [list(use) for read in info.reads for use in read.uses]
    if len(info.reads) != 1 or any(len(use) != 1 for use in uses):
        return None
    last = names.index(uses[-1][0])
    *_, above, inner = operand.digits
    unit = (inner.modulo or 1) if inner.dim == last else 1
    count = sch.target.neighbours(info.dtype) // unit
    loop = next((n for n, d in enumerate(operand.digits[:-1]) if d.dim == last and d.divisor == unit), None)
    if loop is None or count < 2 or inner.dim == above.dim == last:
        return None
    whole = (info.iters[last].extent or 1) % (count * unit) == 0 and nest.extents[loop] % count == 0
    return _Neighbours(loop, count) if whole else None


def _unroll_neighbours(sch: ms.Schedule, nest: _Loops, beside: _Neighbours) -> _Loops:
    """A loop over units side by side around the vectors, unrolled."""
    *outer, inner = nest.loops
    loop, run = sch.split(outer[beside.loop], [None, beside.count])
    outer[beside.loop] = loop
    sch.reorder(*outer, run, inner)
    sch.unroll(run)
    extents = [*nest.extents[:-1], beside.count, nest.extents[-1]]
    extents[beside.loop] //= beside.count
    return _Loops([*outer, run, inner], extents)


def _vector_loops(sch: ms.Schedule, nest: _Loops, lanes: int) -> _Loops:
    """The innermost loops that one vector holds as one."""
    count, elements = 1, nest.extents[-1]
    while count < len(nest.loops) and elements * nest.extents[-count - 1] <= lanes:
        elements *= nest.extents[-count - 1]
        count += 1
    if count == 1:
        return nest
    return _Loops([*nest.loops[:-count], sch.fuse(*nest.loops[-count:])], [*nest.extents[:-count], elements])


def _count_shared_loops(extents: Sequence[int], threads: int) -> int:
    """How many outermost loops threads share."""
    for count in range(1, len(extents) + 1):
        if prod(extents[:count]) >= _SHARES * threads:
            return count
    return len(extents)
