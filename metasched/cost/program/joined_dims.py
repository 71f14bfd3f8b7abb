"""Neighbouring dimensions that are used as one, such as the rows and columns of an image whose pixels a loop counts.

Of indices `f // 28 % 28` and `f % 28` of rows of 28, each moves in steps and jumps, and in memory they are `f % 784`.
"""

from __future__ import annotations

from collections.abc import Sequence

from metasched.ir.integers.affine import simplify
from metasched.ir.nodes import Binary, BinOp, Expr

_DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD})


def joined_dims(indices: Sequence[Expr], shape: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Indices and extents of a dense buffer, with neighbours as one where both are a quotient or a remainder and what
    they are together divides less."""
    places: list[Expr] = []
    extents: list[Expr] = []
    for index, extent in zip(indices, shape, strict=True):
        both = _join_indices(places[-1], index, extent) if places else None
        if both is None:
            places.append(index)
            extents.append(extent)
        else:
            places[-1] = both
            extents[-1] = simplify(Binary(BinOp.MUL, extents[-1], extent))
    return tuple(places), tuple(extents)


def _join_indices(outer: Expr, inner: Expr, extent: Expr) -> Expr | None:
    outer, inner = simplify(outer), simplify(inner)
    if not (_is_division(outer) and _is_division(inner)):
        return None
    both = simplify(Binary(BinOp.ADD, Binary(BinOp.MUL, outer, extent), inner))
    return both if _count_divisions(both) < _count_divisions(outer) + _count_divisions(inner) else None


def _is_division(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in _DIVISIONS


def _count_divisions(e: Expr) -> int:
    return sum(_is_division(node) for node in e.walk() if isinstance(node, Expr))
