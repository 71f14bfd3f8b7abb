"""Rows that neighbouring rows of a stencil share, kept in a sliding window."""

from __future__ import annotations

import math
from functools import partial

from metasched.rules.facts import Factored, Tiled

import metasched as ms

ROLLING, APART = "rolling", "apart"


@ms.rule
def rolling(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    largest: int = 64,
    widths: tuple[int, ...] = (16, 64, 256),
    tiny: int = 1 << 16,
    near: float = 0.5,
) -> ms.Skip | None:
    """Compute what a stencil reads row by row in strips, and keep only the rows that its next row reads again.

    Applies to a block that reads what others compute at neighbouring rows: separable filters, differences of blurred
    images, chains of stencils. Copies with a border are left to rules for padding. Threads share strips of rows, of a
    sampled number. The producers are computed where a row is first needed (compute_at), and a window of rows is stored
    (store_at; Halide's sliding window, Ragan-Kelley et al. 2013, section 4). A structural choice: rolling, or apart.

    Few operators: stages of pipelines whose rows are read again are mostly computed in groups, by `grouping`.

    Args:
        largest: the most rows of a strip.
        widths: the possible numbers of columns that a reduction computes together.
        tiny: instances below which threads take longer to start than they gain.
        near: the share of the first cache in which rows are near enough without a window: finding their places in one
            takes longer.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, tiny)
    if reason is not None:
        return ms.skip(reason)
    rolls = {
        n: partial(_roll, block=block, info=info, row=n, largest=largest, widths=widths) for n in _dimensions(info)
    }
    rows, steps = next(((n, roll) for n, roll in rolls.items() if sch.refusal(roll) is None), (None, None))
    if rows is None or steps is None:
        return ms.skip("no rows that it reads are read again by its next row")
    if _bytes_of_rows(sch, info, rows) <= near * sch.target.l1:
        return ms.skip("all rows that it reads fit into the first cache together")
    if sch.choose("rows", [ROLLING, APART]) == ROLLING:
        steps(sch)
    return None


def _dimensions(info: ms.BlockInfo) -> list[int]:
    """The dimensions that rows may be counted along."""
    return [n for n, it in enumerate(info.spatial[:-1]) if it.extent != 1]


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, tiny: int) -> str | None:
    if not info.trivial or sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "it is scheduled already"
    if info.elementwise or info.positions:
        return "it reads each element at its own place"
    if len(info.spatial) < 2:
        return "its result has no rows"
    producers = [sch.describe(sch.get_block(name)) for name in _producers(sch, info)]
    if not producers:
        return "nothing that only it reads can be computed row by row"
    if all(other.conditional for other in producers):
        return "what it reads is only copied, within borders"
    if info.instances is not None and info.instances < tiny:
        return f"it is so small ({info.instances} instances) that starting threads would take longer"
    return None


def _producers(sch: ms.Schedule, info: ms.BlockInfo) -> list[str]:
    """The blocks that are computed for this one alone and for each other, consumers first."""
    found = [info.name]
    for name in reversed(sch.block_names()):
        other = sch.describe(sch.get_block(name))
        if other.readers and not other.output and set(other.readers) <= set(found):
            found.append(name)
    return found[1:]


def _bytes_of_rows(sch: ms.Schedule, info: ms.BlockInfo, row: int) -> int:
    """Bytes of what producers compute along all dimensions from one on."""
    total = 0
    for name in _producers(sch, info):
        other = sch.describe(sch.get_block(name))
        total += other.dtype.bytes * math.prod(it.extent or 1 for it in other.spatial[row:])
    return total


def _roll(
    sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, row: int, largest: int, widths: tuple[int, ...]
) -> None:
    """Roll along a dimension. Raises ScheduleError unless a window of rows can be kept."""
    producers = [sch.get_block(name) for name in _producers(sch, info)]
    loops = sch.get_loops(block)
    strip, within = sch.split(loops[row], sch.sample_tile(loops[row], parts=2, innermost=largest, step=1))
    columns = loops[row + 1 : len(info.spatial)]
    at = within
    if info.reduces:
        at, run = sch.split(columns[-1], [None, sch.sample_categorical(list(widths), name="columns")])
        sch.reorder(strip, within, *columns[:-1], at, *loops[len(info.spatial) :], run)
    consumer = _consumer(sch, info)
    if consumer is not None:
        sch.reverse_compute_at(consumer, at)
    outer = sch.fuse(*loops[:row], strip) if row else strip
    for producer in producers:
        sch.compute_at(producer, within)

    def keep(on: ms.Schedule, producer: ms.BlockRV) -> None:
        on.store_at(producer, outer)

    windows = [producer for producer in producers if sch.refusal(partial(keep, producer=producer)) is None]
    for producer in windows or producers[:1]:
        sch.store_at(producer, outer)
    sch.parallel(outer)


def _consumer(sch: ms.Schedule, info: ms.BlockInfo) -> ms.BlockRV | None:
    """The one block that reads a result element by element, if there is no other."""
    if info.output or len(info.readers) != 1:
        return None
    reader = sch.describe(sch.get_block(info.readers[0]))
    fits = reader.elementwise and reader.trivial and len(reader.iters) == len(info.spatial)
    return sch.get_block(reader.name) if fits else None
