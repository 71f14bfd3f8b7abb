"""Reads through a shape view as reads of what it is a view of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.indices import Extents, IndexSum, floordiv, linear_form, modulo
from metasched.ir.nodes import BinOp
from metasched.ir.source import IntLit, Name, Operation, SourceExpr

Shape = tuple[int, ...]


class PlaceByData(ValueError):
    """A place in a dimension that a view divides or joins, and which data decide: no index that is checked says it."""


def indices_through_view(
    indices: Sequence[SourceExpr], viewed: Shape, source: Shape, extents: Extents
) -> tuple[SourceExpr, ...]:
    """Where the element at `indices` of the shape `viewed` is in the shape `source`, of the same elements in order.

    Raises PlaceByData where an index that is read from data would have to be divided, or added to.
    """
    out: list[SourceExpr] = []
    for own, given in align_dimensions(source, viewed):
        out += _indices_of_group(
            [indices[d] for d in given], [viewed[d] for d in given], [source[d] for d in own], extents
        )
    return tuple(out)


def align_dimensions(first: Shape, second: Shape) -> list[tuple[range, range]]:
    """Dimensions of two shapes of as many elements in groups, as small as can be, that have as many elements."""
    groups: list[tuple[range, range]] = []
    a = b = 0
    while a < len(first) or b < len(second):
        start_a, start_b = a, b
        size_a = size_b = 1
        while True:
            if size_a <= size_b and a < len(first) and (size_a < size_b or a == start_a):
                size_a *= first[a]
                a += 1
            elif b < len(second) and (size_b < size_a or b == start_b):
                size_b *= second[b]
                b += 1
            else:
                break
        groups.append((range(start_a, a), range(start_b, b)))
    return groups


def _indices_of_group(
    indices: Sequence[SourceExpr], viewed: Sequence[int], source: Sequence[int], extents: Extents
) -> list[SourceExpr]:
    """The indices into dimensions of the source, for those into as many elements of the view.

    They are as simple as they can be known to be: the index itself, terms of it, or quotients and remainders of the
    position that both count. Raises PlaceByData.
    """
    long = [n for n in source if n > 1]
    if len(long) == 1 and [n for n in viewed if n > 1] == long:
        (same,) = (e for e, n in zip(indices, viewed, strict=True) if n > 1)
        return [same if n > 1 else IntLit(0) for n in source]
    # Along a dimension of one element there is one place, whatever says which.
    indices = [e if n > 1 else IntLit(0) for e, n in zip(indices, viewed, strict=True)]
    if any(any(reads(e)) for e in indices):
        raise PlaceByData("a place that data decide is in a dimension that a view divides or joins")
    sums = [linear_form(e, extents) for e in indices]
    if all(part is not None for part in sums):
        return _source_indices([part for part in sums if part is not None], viewed, source, extents)
    return _indices_at(_position(indices, viewed), source)


def _position(indices: Sequence[SourceExpr], shape: Sequence[int]) -> SourceExpr:
    """Which element of a shape indices stand for, counted in row-major order."""
    position: SourceExpr = IntLit(0)
    for place, e in enumerate(indices):
        if shape[place] == 1:
            continue
        stride = math.prod(shape[place + 1 :])
        part = e if stride == 1 else Operation(BinOp.MUL, IntLit(stride), e)
        position = part if position == IntLit(0) else Operation(BinOp.ADD, position, part)
    return position


def _indices_at(position: SourceExpr, shape: Sequence[int]) -> list[SourceExpr]:
    """The indices of the element of a shape at a position: quotients and remainders."""
    out: list[SourceExpr] = []
    for place, extent in enumerate(shape):
        stride = math.prod(shape[place + 1 :])
        quotient = position if stride == 1 else Operation(BinOp.FLOORDIV, position, IntLit(stride))
        outermost = all(n == 1 for n in shape[:place])
        within = quotient if outermost else Operation(BinOp.MOD, quotient, IntLit(extent))
        out.append(IntLit(0) if extent == 1 else within)
    return out


def _source_indices(
    sums: Sequence[IndexSum], viewed: Sequence[int], source: Sequence[int], extents: Extents
) -> list[SourceExpr]:
    """As `_indices_at`, of indices that are sums of multiples: what divides evenly is divided here."""
    flat = IndexSum(())
    for place, part in enumerate(sums):
        flat = flat.plus(part, math.prod(viewed[place + 1 :]))
    # Along a dimension of one element, nothing is added.
    flat = IndexSum(tuple(t for t in flat.terms if not isinstance(t[0], Name) or extents[t[0].name] > 1), flat.constant)
    out: list[SourceExpr] = []
    for place, extent in enumerate(source):
        quotient = floordiv(flat, math.prod(source[place + 1 :]), extents)
        # An index in range leaves nothing over in the outermost dimension.
        outermost = all(n == 1 for n in source[:place])
        part = IndexSum(()) if extent == 1 else quotient if outermost else modulo(quotient, extent, extents)
        out.append(part.expression())
    return out
