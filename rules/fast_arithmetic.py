"""Arithmetic that need not be IEEE's, where the caller allows it."""

from __future__ import annotations

import metasched as ms

FASTMATH = "fastmath"


@ms.rule
def fast_arithmetic(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Let divisions be by a reciprocal, and maxima and minima not know NaN, where `allow` has `fastmath`.

    Applies to blocks that divide or compare, and compute with floats, whatever they store. Sums are regrouped by the
    schedule anyway.
    """
    info = sch.describe(block)
    if not info.floats:
        return ms.skip("it is not about floats")
    if not info.divides and not info.compares:
        return ms.skip("it neither divides nor compares")
    if not sch.allows(FASTMATH, block):
        return ms.skip('the caller does not allow "fastmath"')
    sch.annotate(block, FASTMATH, True)
    return None
