"""Products with weights of a few bits, unpacked where they are multiplied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from metasched.rules.consumers import elementwise_consumer
from metasched.rules.facts import Placed, Tiled, Vectorized

import metasched as ms


@ms.rule
def unpacking(
    sch: ms.Schedule, block: ms.BlockRV, *, vectors: int = 4, run: int = 32, terms: int = 256
) -> ms.Skip | None:
    """Unpack weights in the vectors that multiply them, or a tile at a time where several rows are multiplied.

    A row times a matrix of such weights takes as long as reading them, if nothing else is in the way: a tile of
    neighbouring columns goes through all terms with its sums in registers, and the terms of a block of weights, which
    have one scale, are straight code, in which it is known where in a byte each number is. Their sum is multiplied by
    the scale. Neighbouring weights that are terms of one result are unpacked in vectors of terms.

    For several rows a tile of weights is unpacked into panels in a near cache, once for all rows, and multiplied as
    any other matrix is (Goto and van de Geijn 2008, section 4). Where neighbouring weights are terms of one result, a
    tile is unpacked as it lies, and sums are in lanes along the terms.

    It is no choice, as packed weights are what keeps a network's memory small: `cpu,-unpacking` leaves it out.

    Few operators: the library has no weights of a few bits; networks of language models do.

    Args:
        vectors: of a tile of columns.
        run: the most terms of straight code.
        terms: of a tile that is unpacked for several rows.
    """
    info = sch.describe(block)
    weights = _weights(sch, info)
    if weights is None:
        return ms.skip("it is no sum over one index of products with weights that are unpacked for it")
    once = math.prod(it.extent or 0 for it in weights.rows) == 1
    width = vectors * sch.target.lanes(info.dtype)
    steps = partial(_multiply_tiles, block=block, weights=weights, width=width, terms=terms)
    if once and weights.along_terms:
        steps = partial(_unpack_where_used, weights=weights)
    elif weights.along_terms:
        steps = partial(_multiply_rows, block=block, weights=weights)
    elif once:
        steps = partial(_multiply_lanes, block=block, weights=weights, width=width, most=run)
    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    steps(sch)
    return None


@dataclass(frozen=True)
class _Weights:
    """The block that unpacks weights for a reduction; `rows` are the variables of results that it does not go along,
    `columns` is its dimension along the other, and `terms` that along the sum, which `along_terms` says whether the
    packed numbers lie along.
    """

    block: str
    columns: int
    terms: int
    along_terms: bool
    rows: tuple[ms.IterInfo, ...]


def _weights(sch: ms.Schedule, info: ms.BlockInfo) -> _Weights | None:
    """The weights that a sum over one index reads, if they go along the last dimension of the result alone."""
    if not info.reduces or not info.trivial or not info.initialises or len(info.reduction) != 1:
        return None
    for name in info.sources:
        source = sch.describe(sch.get_block(name))
        reads = [read for read in info.reads if read.buffer == source.writes]
        if source.unpacks and source.readers == (info.name,) and len(reads) == 1 and info.spatial:
            (read,) = reads
            *rows, last = info.spatial
            if last.name in read.bare and read.iters.isdisjoint(it.name for it in rows):
                columns, terms = read.bare.index(last.name), _dimension_of(info.reduction[0].name, read)
                if terms is not None:
                    return _Weights(name, columns, terms, _lies_along(source, terms, columns), tuple(rows))
    return None


def _dimension_of(name: str, read: ms.ReadInfo) -> int | None:
    return read.bare.index(name) if name in read.bare else None


def _lies_along(source: ms.BlockInfo, dim: int, other: int) -> bool:
    """Whether neighbours in memory of what a block unpacks are neighbours along a dimension, and not along another."""
    packed = max(source.reads, key=lambda read: math.prod(n or 1 for n in read.shape))
    along = packed.uses[-1] if packed.uses else frozenset()
    return source.iters[dim].name in along and source.iters[other].name not in along


def _unpack_where_used(sch: ms.Schedule, weights: _Weights) -> None:
    """Unpack each vector of weights where it is used, once: another rule puts the terms in lanes."""
    sch.compute_inline(sch.get_block(weights.block))


def _multiply_lanes(sch: ms.Schedule, block: ms.BlockRV, weights: _Weights, width: int, most: int) -> None:
    sch.compute_inline(sch.get_block(weights.block))
    info = sch.describe(block)
    *rows, columns, along = sch.get_loops(block)
    outer, inner = sch.split(columns, [None, width])
    length = _terms_of_scale(info, most)
    blocks, run = sch.split(along, [None, length])
    sch.reorder(outer, *rows, blocks, run, inner)
    sch.unroll(run)
    if info.dtype.is_float:
        sch.annotate(block, "blocked_sum", length)
        sch.annotate(block, "common_factor", True)
    _schedule_product(sch, block, inner, width)
    _share_tiles(sch, block, outer)


def _terms_of_scale(info: ms.BlockInfo, most: int) -> int:
    """So many terms of a sum, at most, that all of them have one scale; several such runs may have the same."""
    name = info.reduction[0].name
    in_a_byte = {found.divisor for found in info.remainders if name in found.iters}
    scale = min((step for step in info.steps.get(name, ()) if step not in in_a_byte), default=most)
    return next(terms for terms in range(min(scale, most), 0, -1) if scale % terms == 0)


def _multiply_tiles(sch: ms.Schedule, block: ms.BlockRV, weights: _Weights, width: int, terms: int) -> None:
    info = sch.describe(block)
    panel = 2 * sch.target.lanes(info.dtype)
    *others, rows, columns, along = sch.get_loops(block)
    extent = weights.rows[-1].extent or 1
    outer, inside = sch.split(columns, [None, width])
    panels, inner = sch.split(inside, [None, panel])
    tiles, row = sch.split(rows, [None, _rows_of_tile(extent, (sch.target.registers - 4) // 2)])
    blocks, term = sch.split(along, [None, terms])
    sch.reorder(outer, blocks, *others, tiles, panels, term, row, inner)
    _unpack_panels(sch, weights, blocks, panel)
    _schedule_product(sch, block, inner, sch.target.registers * panel)
    _share_tiles(sch, block, outer)


def _multiply_rows(sch: ms.Schedule, block: ms.BlockRV, weights: _Weights) -> None:
    """Multiply rows by rows in lanes along the terms: a tile of rows of weights is unpacked as it lies."""
    info = sch.describe(block)
    lanes, side = sch.target.lanes(info.dtype), _side_of_tile(sch.target.registers)
    *others, rows, columns, along = sch.get_loops(block)
    mine, its = weights.rows[-1].extent or 1, info.spatial[-1].extent or 1
    column = _rows_of_tile(its, side)
    row_bytes = (info.reduction[0].extent or 1) * info.dtype.bytes
    tiles = max(min(_TILES, sch.target.l2 // 2 // (row_bytes * column)), 1)
    outer, middle, inner = sch.split(columns, [None, tiles, column])
    blocks, row = sch.split(rows, [None, _rows_of_tile(mine, side)])
    vectors, lane = sch.split(along, [None, lanes])
    sch.reorder(outer, *others, blocks, middle, vectors, row, inner, lane)
    _unpack_row(sch, weights, outer, lanes)
    _schedule_product(sch, block, lane, side * side)
    _share_tiles(sch, block, outer)


def _unpack_row(sch: ms.Schedule, weights: _Weights, at: ms.LoopRV, lanes: int) -> None:
    block = sch.get_block(weights.block)
    dims = range(len(sch.describe(block).iters))
    order = [dim for dim in dims if dim != weights.terms] + [weights.terms]
    sch.compute_at(block, at)
    if order != list(dims):
        sch.transform_layout(block, f"{', '.join(f'd{dim}' for dim in dims)} -> {', '.join(f'd{n}' for n in order)}")
    loops = sch.get_loops(block)[-len(dims) :]
    sch.reorder(*(loops[dim] for dim in order))
    _, run = sch.split(loops[weights.terms], [None, lanes])
    sch.vectorize(run, lanes=lanes)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Placed())


# The most tiles of registers along the columns for which weights are unpacked together.
_TILES = 4


def _side_of_tile(registers: int) -> int:
    """The most sums each way of which each row and one of the columns' vectors are in registers, too."""
    return next(side for side in range(math.isqrt(registers), 0, -1) if side * side + side < registers)


def _rows_of_tile(extent: int, most: int) -> int:
    """Rows of a register tile: as many as fit, or up to half as many where fewer are computed in vain."""
    fitting = range(min(extent, most), max(most // 2, 1) - 1, -1)
    return min(fitting, key=lambda rows: -(-extent // rows) * rows, default=extent)


def _schedule_product(sch: ms.Schedule, block: ms.BlockRV, inner: ms.LoopRV, limit: int) -> None:
    """Run columns in vectors, with their sums in registers."""
    sch.vectorize(inner, lanes=sch.target.lanes(sch.describe(block).dtype))
    sch.annotate(block, "unroll_limit", limit)
    sch.add_fact(block, Vectorized())


def _share_tiles(sch: ms.Schedule, block: ms.BlockRV, outer: ms.LoopRV) -> None:
    """Have threads share tiles of columns, and what is made of the results element by element computed in them."""
    sch.add_fact(block, Tiled((outer,)))
    consumer = elementwise_consumer(sch, sch.describe(block))
    if consumer is not None and sch.refusal(lambda on: on.reverse_compute_at(consumer, outer)) is None:
        sch.reverse_compute_at(consumer, outer)


def _unpack_panels(sch: ms.Schedule, weights: _Weights, at: ms.LoopRV, panel: int) -> None:
    """Compute a tile of weights, in panels; each byte is loaded once, as the loop over its numbers is unrolled."""
    block = sch.get_block(weights.block)
    info = sch.describe(block)
    divisors = {name: found.divisor for found in info.remainders for name in found.iters}
    lanes = sch.target.lanes(info.dtype)
    names = [f"d{n}" for n in range(len(info.iters))]
    column = names.pop(weights.columns)
    over = ", ".join(f"d{n}" for n in range(len(info.iters)))
    sch.compute_at(block, at)
    sch.transform_layout(block, f"{over} -> {', '.join([f'{column}//{panel}', *names, f'{column}%{panel}'])}")
    loops = list(sch.get_loops(block)[-len(info.iters) :])
    vectors, inner = sch.split(loops.pop(weights.columns), [None, lanes])
    iters = [it for n, it in enumerate(info.iters) if n != weights.columns]
    whole, digits = list[ms.LoopRV](), list[ms.LoopRV]()
    for loop, it in zip(loops, iters, strict=True):
        outer = loop
        if it.name in divisors:
            outer, digit = sch.split(loop, [None, divisors[it.name]])
            digits.append(digit)
        whole.append(outer)
    sch.reorder(*whole, vectors, *digits, inner)
    for digit in digits:
        sch.unroll(digit)
    sch.vectorize(inner, lanes=lanes)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Placed())
