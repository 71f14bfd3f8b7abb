"""Inlining of cheap element-wise blocks."""

from __future__ import annotations

import metasched as ms

EXPENSIVE = frozenset({"exp", "log", "tanh", "erf", "pow", "sin", "cos", "sigmoid"})


@ms.rule
def inline(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute a cheap element-wise block where it is read, and store nothing.

    Blocks with a condition, such as padding, are left to the rule `compute_location`, which weighs inlining against
    computing them once; blocks with costly functions are not repeated for every reader.
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
    sch.compute_inline(block)
    return None
