"""Sums of products without the terms that read padding."""

from __future__ import annotations

from functools import partial

from metasched.rules.facts import Placed, Threaded, Vectorized

import metasched as ms

SKIPPED = "skipped"


@ms.rule
def padding_terms(sch: ms.Schedule, block: ms.BlockRV, *, worth: float = 0.78, terms: int = 8) -> ms.Skip | None:
    """Leave out the terms of a convolution that read rows of padding, where these are many.

    Of a window of 3 x 3 over 33 rows at a dilation of 12 a quarter of the terms read rows of padding, at one of 18 a
    third. Zeros times infinite weights are no zeros: what these terms are is computed apart, once for all columns, and
    ahead of calls where the weights are constant (`skip_padding`). Columns are left as they are: a tile in registers
    has several of them. A structural choice: so, or `left alone`.

    Args:
        worth: the largest share of the terms that may be left. Conditions on rows leave a tile in registers one row:
            where more terms were left, as of 12 x 12 by 5 x 5, that cost as much.
        terms: the fewest terms that a condition is to be asked once for.
    """
    info = sch.describe(block)
    if not info.reduces or not info.trivial:
        return ms.skip("it is no reduction that is not scheduled yet")
    if not info.dtype.is_float or any(read.dtype != info.dtype for read in info.reads):
        return ms.skip("terms of other types are summed by tensor instructions, several at once")
    padded = [found for source in info.sources if len(found := sch.describe(sch.get_block(source)).inside) > 1]
    if not padded:
        return ms.skip("it reads no padding of several dimensions")
    steps = partial(_skip, block=block, dimensions=len(padded[0]) - 1)
    reason = sch.refusal(steps)
    if reason is not None:
        return ms.skip(reason)
    trial = sch.trial()
    zeros, _ = trial.skip_padding(trial.get_block(info.name), len(padded[0]) - 1)
    together = trial.describe(zeros)
    if (together.size(together.reduction) or terms) < terms:
        return ms.skip("so few terms share a row that conditions would take longer")
    present = trial.describe(trial.get_block(info.name)).present
    if present > worth:
        return ms.skip(f"{present:.0%} of its terms read no rows of padding")
    if sch.choose("padding_terms", [ms.LEFT_ALONE, SKIPPED]) == SKIPPED:
        steps(sch)
    return None


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
