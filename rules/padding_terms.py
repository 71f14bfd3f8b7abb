"""Sums of products without the terms that read padding."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from metasched.rules.facts import Placed, Threaded, Vectorized

import metasched as ms

SKIPPED = "skipped"
EVERYWHERE = "skipped along all dimensions"


@ms.rule
def padding_terms(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    worth: float = 0.78,
    worth_everywhere: float = 0.96,
    terms: int = 8,
    gained: int = 16,
) -> ms.Skip | None:
    """Leave out the terms of a convolution that read padding, where these are many.

    Of a window of 3 x 3 over 33 rows at a dilation of 12 a quarter of the terms read rows of padding, at one of 18 a
    third. Zeros times infinite weights are no zeros: what these terms are is computed apart, and ahead of calls where
    the weights are constant (`skip_padding`). A structural choice: those that read rows of padding are `skipped`, or
    those that read columns, too, or all are `left alone`. Columns are asked before the loops over other terms, such as
    those of channels, once for a tile in registers, which has several of them; not where lanes run along columns.

    Args:
        worth: the largest share of the terms that may be left without those of rows. Conditions on rows leave a tile in
            registers one row: where more terms were left, as of 12 x 12 by 5 x 5, that cost as much.
        worth_everywhere: the same without those of rows and columns.
        terms: the fewest terms that a condition is to be asked once for.
        gained: the fewest terms that are left out for each weight. What zeros times the weights are takes a look at
            each of them, in every call where they are not packed ahead: with 18 of 14 x 14 by 3 x 3 such calls take as
            long as before, with 9 of 7 x 7 1.3 times as long (Zen 4; packed ahead .94 and .85).
    """
    info = sch.describe(block)
    if not info.reduces or not info.trivial:
        return ms.skip("it is no reduction that is not scheduled yet")
    if not info.dtype.is_float or any(read.dtype != info.dtype for read in info.reads):
        return ms.skip("terms of other types are summed by tensor instructions, several at once")
    padded = next((found for source in info.sources if len((found := _block(sch, source)).inside) > 1), None)
    if padded is None:
        return ms.skip("it reads no padding of several dimensions")
    every = len(padded.inside)
    least = _Least(terms, gained)
    lacking = _obstacle(sch, block, every - 1, worth, least)
    ways = {} if lacking is not None else {SKIPPED: every - 1}
    if not _has_lanes_along_last(info, padded) and _obstacle(sch, block, every, worth_everywhere, least) is None:
        ways[EVERYWHERE] = every
    if lacking is not None and not ways:
        return ms.skip(lacking)
    how = sch.choose("padding_terms", [ms.LEFT_ALONE, *ways])
    if how in ways:
        _skip(sch, block, ways[how])
    return None


def _block(sch: ms.Schedule, name: str) -> ms.BlockInfo:
    return sch.describe(sch.get_block(name))


class _Least(NamedTuple):
    """The fewest terms that share a condition, and that are left out for each weight."""

    terms: int
    gained: int


def _obstacle(sch: ms.Schedule, block: ms.BlockRV, dimensions: int, worth: float, least: _Least) -> str | None:
    """Why terms that read padding along so many dimensions are not left out; None where they may be."""
    reason = sch.refusal(partial(_skip, block=block, dimensions=dimensions))
    if reason is not None:
        return reason
    trial, name = sch.trial(), sch.describe(block).name
    zeros, _ = trial.skip_padding(trial.get_block(name), dimensions)
    weights, sums = trial.describe(zeros), _block(trial, name)
    if (weights.size(weights.reduction) or least.terms) < least.terms:
        return "so few terms share a row that conditions would take longer"
    if sums.present > worth:
        return f"{sums.present:.0%} of its terms read no rows of padding"
    if (sums.instances or 0) * (1 - sums.present) < least.gained * (weights.instances or 0):
        return "so few terms are left out for each weight that looking at the weights would take as long"
    return None


def _has_lanes_along_last(info: ms.BlockInfo, padded: ms.BlockInfo) -> bool:
    """Whether the last spatial variable, along which lanes run, is one that moves along the last padded dimension."""
    last = [it.name for it in padded.spatial].index(list(padded.inside)[-1])
    moving = [read.uses[last] for read in info.reads if read.buffer == padded.writes]
    return any(info.spatial[-1].name in uses for uses in moving)


def _skip(sch: ms.Schedule, block: ms.BlockRV, dimensions: int) -> None:
    for made in sch.skip_padding(block, dimensions):
        _vectorize_block(sch, made)
        for fact in (Placed(), Vectorized(), Threaded()):
            sch.add_fact(made, fact)


def _vectorize_block(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """A small block in vectors along its last dimension, inside of what it sums over."""
    info = sch.describe(block)
    loops = sch.get_loops(block)
    *others, last = loops[: len(info.spatial)]
    lanes = sch.target.lanes(info.dtype)
    vectors, lane = sch.split(last, [None, lanes])
    sch.reorder(*others, vectors, *loops[len(info.spatial) :], lane)
    sch.vectorize(lane, lanes=lanes)
