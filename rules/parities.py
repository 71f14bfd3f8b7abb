"""Loops split by the divisor of a condition, so that it is known in each copy of the code."""

from __future__ import annotations

from math import prod

from metasched.rules.facts import Digits
from metasched.rules.own_loops import own_loops

import metasched as ms

SPLIT, WHOLE = "split", "whole"


@ms.rule
def parities(sch: ms.Schedule, block: ms.BlockRV, *, copies: int = 27) -> ms.Skip | None:
    """Split the loops of a strided reduction by its stride, and unroll the digits.

    In a transposed convolution, `(h + r) % 2 == 0` says which outputs and filter elements meet. With `h` and `r` split
    by two, their digits decide that when the code is made: of the copies of the code, those without terms are left out.
    Tiles are then of outputs that all have the same terms. A structural choice: split, or whole.

    Args:
        copies: of the code, at most, one for each combination of the digits of elements.
    """
    info = sch.describe(block)
    strides = _strides(info)
    reason = _find_obstacle(info, strides, copies)
    if reason is not None:
        return ms.skip(reason)
    if sch.choose("parities", [SPLIT, WHOLE]) == WHOLE:
        return None
    rest: list[ms.LoopRV] = []
    digits: list[ms.LoopRV | None] = []
    for loop, it in zip(own_loops(sch, block, info), info.iters, strict=True):
        stride = strides.get(it.name)
        outer, digit = (loop, None) if stride is None else sch.split(loop, [None, stride])
        rest.append(outer)
        digits.append(digit)
    for digit in digits:
        if digit is not None:
            sch.unroll(digit)
    sch.add_fact(block, Digits(tuple(rest), tuple(digits)))
    return None


def _strides(info: ms.BlockInfo) -> dict[str, int]:
    """The divisor for each iteration variable of a condition over elements and terms."""
    reduced = {it.name for it in info.reduction}
    strides: dict[str, int] = {}
    for found in info.remainders:
        if found.iters & reduced and found.iters - reduced:
            strides.update(dict.fromkeys(found.iters, found.divisor))
    return strides


def _find_obstacle(info: ms.BlockInfo, strides: dict[str, int], copies: int) -> str | None:
    if not info.reduces:
        return "it is not a reduction"
    if not info.trivial:
        return "it is scheduled already"
    if not strides:
        return "none of its conditions is a remainder over elements and terms"
    if any(strides.get(name, found.divisor) != found.divisor for found in info.remainders for name in found.iters):
        return "its conditions divide by different numbers"
    made = prod(strides.get(it.name, 1) for it in info.spatial)
    return None if made <= copies else f"its code would have {made} copies"
