"""Sizes of dimensions at the largest sizes and at samples, and dimensions as products of them.

An *extent* is a tuple: what a size is in the largest graph, then in each sample. It is free if these differ. A
dimension that a view made of several is a product of extents, outermost first. Of a dimension whose outermost factor
alone is free, a smaller graph has the first places; of any other, places with gaps between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Extent: TypeAlias = tuple[int, ...]
# The extents that a dimension is made of, without ones.
Factors: TypeAlias = tuple[Extent, ...]


def is_free(extent: Sequence[float]) -> bool:
    """Whether a number depends on the sizes of a call."""
    return len(set(extent)) > 1


def factors_of(extent: Extent) -> Factors:
    """A dimension that is no product."""
    return () if set(extent) == {1} else (extent,)


def has_gaps(factors: Factors) -> bool:
    """Whether places of a smaller dimension are not the first ones of the larger."""
    return any(is_free(extent) for extent in factors[1:])


def product(factors: Sequence[Extent], length: int) -> Extent:
    """The extent of a dimension."""
    return tuple(math.prod(extent[n] for extent in factors) for n in range(length))


def regroup_dims(dims: Sequence[Factors], wanted: Sequence[Extent]) -> tuple[Factors, ...] | None:
    """The dimensions of a view in factors, from those of what it is of; None where it cuts a free factor apart."""
    left = [extent for factors in dims for extent in factors]
    found: list[Factors] = []
    for extent in wanted:
        taken: list[Extent] = []
        rest = extent
        while set(rest) != {1}:
            if not left:
                return None
            factor = left.pop(0)
            if _divides(factor, rest):
                taken.append(factor)
                rest = tuple(r // f for r, f in zip(rest, factor, strict=True))
            elif _divides(rest, factor) and not is_free(inner := _quotient(factor, rest)):
                # The outer part of it is this dimension's, the inner one, which is not free, the next one's.
                taken.append(rest)
                left.insert(0, inner)
                rest = (1,) * len(extent)
            else:
                return None
        found.append(tuple(taken))
    return tuple(found) if not left else None


def _divides(part: Extent, whole: Extent) -> bool:
    """Whether an extent is a factor of another, with the same rest at all sizes or a rest of its own."""
    return all(w % p == 0 for p, w in zip(part, whole, strict=True))


def _quotient(whole: Extent, part: Extent) -> Extent:
    return tuple(w // p for p, w in zip(part, whole, strict=True))
