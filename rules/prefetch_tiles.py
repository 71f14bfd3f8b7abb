"""Tiles of weights asked for while the ones before are used."""

from __future__ import annotations

import math

from metasched.rules.facts import Repeated, Tiled

import metasched as ms

LIKELY = 0.9  # How likely a loop asks: weights come from beyond the second cache in most calls.
SELDOM = 0.1  # How likely rows are asked for one by one: that takes instructions beside each product.


@ms.rule
def prefetch_tiles(
    sch: ms.Schedule, block: ms.BlockRV, *, fewest_bytes: int | None = None, rows: tuple[int, ...] = (4, 8)
) -> ms.Skip | None:
    """Ask for the next tile of a constant operand while one is used, where a call does not find it in the caches.

    Between two calls of a kernel, other kernels of a network have driven its weights out. A tile is used for several
    tiles of rows, and the next comes into the second cache meanwhile, a part in each pass (what Goto and van de Geijn
    2008, section 4.2.3, leave to the hardware, which follows a run no further than a page). The loop over tiles of
    terms asks for the next tile of terms, and the outermost loop of the nest for what its next iteration uses; whether
    each does is a random variable. Where no copy has put a tile together, its rows are lines far apart. The innermost
    loop over terms may ask for the rows of some iterations later, how many is a random variable, too; mostly it does
    not.

    Args:
        fewest_bytes: the smallest constant operand to apply this to; by default what the target's first cache holds.
        rows: how many rows ahead to ask, where rows are asked for.
    """
    tiled = sch.facts(block, Tiled)
    if tiled is None or tiled.terms is None:
        return ms.skip("it is not tiled")
    if sch.facts(block, Repeated) is not None:
        return ms.skip("the call before has left its constants in the caches")
    least = sch.target.l1 if fewest_bytes is None else fewest_bytes
    info = sch.describe(block)
    if not any(size > least for size in _constant_bytes(sch, info)):
        return ms.skip("it reads no constant operand that is larger than the first cache")
    outermost = sch.get_loops(block)[0]
    for name, loop in (("terms", tiled.terms), ("outermost", outermost)):
        ahead = sch.sample_categorical([1, 0], probabilities=[LIKELY, 1 - LIKELY], name=name)
        sch.annotate(loop, "prefetch_tile", ahead)
    innermost = [n for n, loop in enumerate(info.loops) if any(it.reduces for it in info.iter_of(loop))][-1]
    if any(read.buffer in _constants(sch) for read in info.reads):
        others = [SELDOM / len(rows)] * len(rows)
        ahead = sch.sample_categorical([0, *rows], probabilities=[1 - SELDOM, *others], name="rows")
        sch.annotate(sch.get_loops(block)[innermost], "prefetch", ahead)
    return None


def _constants(sch: ms.Schedule) -> set[str]:
    return {argument.name for argument in sch.program.inputs if argument.const}


def _constant_bytes(sch: ms.Schedule, info: ms.BlockInfo) -> list[int]:
    """The bytes of each operand that is a constant, or a copy of constants."""
    constants = _constants(sch)
    for source in map(sch.describe, map(sch.get_block, info.sources)):
        if source.reads and all(read.buffer in constants for read in source.reads):
            constants.add(source.writes)
    read = [x for x in info.reads if x.buffer in constants]
    return [x.dtype.bytes * math.prod(extent or 1 for extent in x.shape) for x in read]
