"""Stores past the caches."""

from __future__ import annotations

import math
from typing import Any

from metasched.rules.facts import Vectorized

import metasched as ms


@ms.rule
def stream(sch: ms.Schedule, block: ms.BlockRV, *, cache: int | None = None) -> ms.Skip | None:
    """Offer stores past the caches for large results that nothing reads again.

    A normal store first reads the cache line that it writes, and evicts others. Whether to avoid that is a random
    variable. Applies where the arguments and results of the program take more than the last cache, and the block's
    result more than a quarter of it.

    Args:
        cache: bytes of the last cache; by default the target's.
    """
    info = sch.describe(block)
    if info.reduces:
        return ms.skip("it is a reduction")
    if not info.output or info.readers:
        return ms.skip("what it writes is read again")
    if sch.facts(block, Vectorized) is None:
        return ms.skip("it stores no vectors")
    last = sch.target.l3 if cache is None else cache
    sizes = {b.name: _bytes(b) for b in (*sch.program.inputs, *sch.program.outputs)}
    if sum(sizes.values()) <= last:
        return ms.skip("the last cache holds all arguments and results")
    if 4 * sizes[info.writes] <= last:
        return ms.skip("its result is small")

    def steps(on: ms.Schedule) -> None:
        on.annotate(block, "non_temporal", on.sample_categorical([0, 1], name="past_caches"))

    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    steps(sch)
    return None


def _bytes(tensor: Any) -> int:
    return int(tensor.dtype.bytes * math.prod(extent.value for extent in tensor.shape))
