"""Sums of products of bytes in blocks that are scaled one by one, such as those of weights of a few bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from metasched.rules.consumers import elementwise_consumer, obstacle_to_tiles
from metasched.rules.facts import Placed, Tiled, Vectorized
from metasched.rules.tensor_operands import fits_of, obstacle_to_fit

import metasched as ms


@ms.rule
def products_in_blocks(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    intrinsics: tuple[str, ...] = ("dot_i8u8_vnni", "dot_u8i8_vnni", "dot_i8u8_avxvnni", "dot_u8i8_avxvnni"),
    vectors: int = 4,
    rows: int = 4,
    rows_of_panel: int = 256,
    steps: int = 8,
) -> ms.Skip | None:
    """Compute each block of terms with a tensor intrinsic, and add it up while it is in registers.

    A panel of neighbouring columns goes through all blocks. What of the weights is unpacked for a block is unpacked
    into the first cache, once for all rows, in vectors as they lie; a tile of rows multiplies it in sums that are
    whole numbers, which are scaled and added to the results. So weights are read once, packed, which is all that the
    product with one row takes time for.

    It is no choice, as packed weights are what keeps a network's memory small: `cpu,-products_in_blocks` leaves it out.

    Few operators: the library has no weights of a few bits; networks of language models do.

    Args:
        intrinsics: names of the intrinsics to try.
        vectors: the most in a panel of columns.
        rows: the most in a tile of sums, which takes half of the registers at most.
        rows_of_panel: the most that a panel goes through its blocks for, so that their results stay in a near cache.
        steps: the most uses along the terms in straight code.
    """
    info = sch.describe(block)
    reason = obstacle_to_tiles(sch, block, info)
    if reason is not None:
        return ms.skip(reason)
    product = _product(sch, info)
    if product is None:
        return ms.skip("it is no sum over blocks of what is a sum of products in each")
    try:
        trial = sch.trial()
        fit = fits_of(trial, trial.get_block(_copied(trial, product).block), intrinsics)[0]
    except ms.ScheduleError as error:
        return ms.skip(error.message)
    reason = obstacle_to_fit(sch, block, fit, most_padding=1.0)
    if reason is not None:
        return ms.skip(reason)
    lanes, columns = fit.axis_of_lanes.size, info.spatial[-1].extent or 1
    side_by_side = _divisor(columns // lanes, vectors)
    in_registers = max(min(rows, sch.target.registers // 2 // side_by_side), 1)
    sizes = _Sizes(lanes * side_by_side, in_registers, rows_of_panel, steps)
    nest = partial(_multiply, block=block, product=product, fit=fit, sizes=sizes)
    refusal = sch.refusal(nest)
    if refusal is not None:
        return ms.skip(refusal)
    nest(sch)
    return None


@dataclass(frozen=True)
class _Product:
    """The block that sums the products of each block of terms, and the one that unpacks weights for it, if one does.

    `terms` and `columns` are the dimensions of what is unpacked along the terms and the columns.
    """

    block: str
    unpacked: str | None = None
    terms: int = 0
    columns: int = 0


@dataclass(frozen=True)
class _Sizes:
    """Columns of a panel; the most rows of a tile and of what a panel goes through blocks for; the most steps."""

    panel: int
    rows: int
    rows_of_panel: int
    steps: int


def _product(sch: ms.Schedule, info: ms.BlockInfo) -> _Product | None:
    """The sum of products that a sum over one index reads once, element by element, if it is read nowhere else."""
    if len(info.reduction) != 1 or not info.spatial:
        return None
    for name in info.sources:
        source = sch.describe(sch.get_block(name))
        reads = [read for read in info.reads if read.buffer == source.writes]
        if not (source.reduces and source.readers == (info.name,) and len(source.reduction) == len(reads) == 1):
            continue
        if reads[0].bare[-1:] == (info.spatial[-1].name,) and set(reads[0].bare) == {it.name for it in info.iters}:
            return _with_unpacked(sch, source)
    return None


def _with_unpacked(sch: ms.Schedule, product: ms.BlockInfo) -> _Product:
    for name in product.sources:
        source = sch.describe(sch.get_block(name))
        reads = [read for read in product.reads if read.buffer == source.writes]
        if not source.reduces and source.readers == (product.name,) and len(reads) == 1:
            terms, columns = product.reduction[0].name, product.spatial[-1].name
            if terms in reads[0].bare and columns in reads[0].bare:
                return _Product(product.name, name, reads[0].bare.index(terms), reads[0].bare.index(columns))
    return _Product(product.name)


def _copied(sch: ms.Schedule, product: _Product) -> _Product:
    """The product with an operand copied that lies in panels, as if it were unpacked. Raises ScheduleError."""
    info = sch.describe(sch.get_block(product.block))
    elsewhere = [read.buffer for read in info.reads if None in read.bare]
    if product.unpacked is not None or len(elsewhere) != 1:
        return product
    sch.reindex(sch.get_block(product.block), elsewhere[0])
    return _with_unpacked(sch, sch.describe(sch.get_block(product.block)))


def _multiply(sch: ms.Schedule, block: ms.BlockRV, product: _Product, fit: ms.TensorFit, sizes: _Sizes) -> None:
    product = _copied(sch, product)
    info = sch.describe(block)
    *around, columns, blocks = sch.get_loops(block)
    outer, inner = sch.split(columns, [None, sizes.panel])
    tiles: list[ms.LoopRV] = []
    if prod(it.extent or 0 for it in info.spatial[:-1]) != 1:
        extent = info.spatial[-2].extent or 1
        tile = _divisor(extent, sizes.rows)
        several = _divisor(extent // tile, max(sizes.rows_of_panel // tile, 1))
        part, *tiles = sch.split(around.pop(), [None, several, tile])
        around.append(part)
    sch.reorder(outer, *around, blocks, *tiles, inner)
    sch.vectorize(inner, lanes=fit.axis_of_lanes.size)
    sch.annotate(block, "unroll_limit", sizes.rows * sizes.panel)
    sch.compute_at(sch.get_block(product.block), tiles[0] if tiles else blocks)
    if product.unpacked is not None:
        _unpack(sch, product, blocks, fit)
    _use_intrinsic(sch, sch.get_block(product.block), fit, sizes.steps)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Tiled((outer,)))
    consumer = elementwise_consumer(sch, sch.describe(block))
    if consumer is not None and sch.refusal(lambda on: on.reverse_compute_at(consumer, outer)) is None:
        sch.reverse_compute_at(consumer, outer)


def _divisor(extent: int, most: int) -> int:
    """The largest that divides an extent: what is guarded is no use of an instruction."""
    return next(size for size in range(min(extent, most), 0, -1) if extent % size == 0)


def _use_intrinsic(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit, most: int) -> None:
    """Go through a tile's terms, so many steps in straight code, with all of its sums in registers."""
    info = sch.describe(block)
    uses: dict[str, ms.LoopRV] = {}
    tile: list[ms.LoopRV] = []
    terms: list[ms.LoopRV] = []
    for loop, it in zip(sch.get_loops(block)[-len(info.iters) :], info.iters, strict=True):
        axis, own = fit.axis_of(it.name), loop
        if axis is not None:
            own, *inside = sch.split(loop, [None, *axis.sizes])
            uses.update(zip(axis.axes, inside, strict=True))
        if it.reduces:
            terms = sch.split(own, [None, _divisor((it.extent or 1) // (1 if axis is None else axis.size), most)])
        else:
            tile.append(own)
    within = [uses[axis] for axis in fit.intrinsic.block_axes]
    sch.reorder(*terms, *tile, *within)
    sch.tensorize(within[0], fit.intrinsic.name)
    for loop in (*terms[1:], *tile):
        sch.unroll(loop)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Placed())


def _unpack(sch: ms.Schedule, product: _Product, at: ms.LoopRV, fit: ms.TensorFit) -> None:
    """Unpack the weights of a block as the intrinsic reads them; each byte is loaded once for all of its numbers."""
    assert product.unpacked is not None
    terms = fit.axis_of(sch.describe(sch.get_block(product.block)).reduction[0].name)
    together = 1 if terms is None else terms.size
    block = sch.get_block(product.unpacked)
    info = sch.describe(block)
    names = [f"d{n}" for n in range(len(info.iters))]
    term, column = names[product.terms], names[product.columns]
    others = [name for name in names if name not in {term, column}]
    # A byte has terms that are so many apart: those of as many neighbouring bytes come before its next one.
    digits = max(max(info.steps.get(info.iters[product.terms].name, (1,))) // together, 1)
    sch.compute_at(block, at)
    layout = [f"{term}//{together}", *others, column, f"{term}%{together}"]
    sch.transform_layout(block, f"{', '.join(names)} -> {', '.join(layout)}")
    loops = list(sch.get_loops(block)[-len(names) :])
    groups, digit, beside = sch.split(loops[product.terms], [None, digits, together])
    rest = [loop for n, loop in enumerate(loops) if n not in {product.terms, product.columns}]
    sch.reorder(*rest, groups, digit, loops[product.columns], beside)
    width = sch.target.lanes(info.dtype)
    vectors, lane = sch.split(sch.fuse(loops[product.columns], beside), [None, width])
    sch.reorder(groups, vectors, digit, lane)
    sch.unroll(digit)
    sch.vectorize(lane, lanes=width)
    sch.add_fact(block, Vectorized())
    sch.add_fact(block, Placed())
