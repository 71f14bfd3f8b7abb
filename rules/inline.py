"""Inlining of cheap element-wise blocks."""

from __future__ import annotations

import metasched as ms

INLINED, KEPT = "inlined", "kept"
EXPENSIVE = frozenset({"exp", "log", "tanh", "erf", "pow", "sin", "cos", "sigmoid"})


@ms.rule
def inline(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute a cheap element-wise block where it is read, and store nothing.

    Blocks with a condition, such as padding, are left to the rule `compute_location`, which weighs inlining against
    computing them once; blocks with costly functions are not repeated for every reader. Structural choice, for a block
    that reads dimensions in another order, such as a transpose: inlined, or kept for `compute_location` to place.
    """
    info = sch.describe(block)
    if info.reduces:
        return ms.skip("it is a reduction")
    if info.output:
        return ms.skip("it writes an output")
    if info.conditional:
        return ms.skip("it has a condition; compute_location decides where it is computed")
    if not info.elementwise:
        return ms.skip("it is not element-wise")
    if EXPENSIVE & set(info.calls):
        return ms.skip("it calls a costly function")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    reason = sch.refusal(lambda trial: trial.compute_inline(block))
    if reason is not None:
        return ms.skip(reason)
    if _in_order(info) or sch.choose("transpose", [INLINED, KEPT]) == INLINED:
        sch.compute_inline(block)
    return None


def _in_order(info: ms.BlockInfo) -> bool:
    """Whether every read takes the iteration variables in the order in which they are written."""
    order = [it.name for it in info.iters]
    return all(
        places == sorted(places)
        for read in info.reads
        if (places := [order.index(name) for use in read.uses for name in use])
    )
