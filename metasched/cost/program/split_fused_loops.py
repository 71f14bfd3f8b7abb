"""Parallel loops that are several loops fused, taken apart: what is used again, and by which thread, shows then.

Of a loop `f` over 8 x 12 iterations whose indices are `f // 12` and `f % 12`, each iteration moves both. That what
`f % 12` reads is read again 12 iterations later, and by every thread, only shows in the two loops that were fused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from metasched.ir.integers.affine import ONE, ZERO, free_vars, from_poly, simplify, to_poly
from metasched.ir.integers.polynomial import Poly, constant_poly, divide_out, multiply
from metasched.ir.node_base import Node
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, LoopKind, Var

_ONE = constant_poly(1)


class BlockInSplitLoops(NamedTuple):
    """A block with the loops around it; the one at depth `first` has become `more` loops more."""

    block: Block
    loops: tuple[For, ...]
    first: int = 0
    more: int = 0

    def depth_after_split(self, depth: int) -> int:
        """How many loops are around what had `depth` of them."""
        return depth + self.more if depth > self.first else depth


class _Part(NamedTuple):
    """The part of a fused loop that an index depends on, `f // low % (high // low)`; `f // low` where there is no
    `high`.
    """

    low: Poly
    high: Poly | None


def split_fused_loops(block: Block, loops: tuple[For, ...]) -> BlockInSplitLoops:
    """A block under the loops that its outermost parallel loop was fused of, as far as its indices show them."""
    first = next((n for n, loop in enumerate(loops) if loop.kind is LoopKind.PARALLEL), None)
    if first is None:
        return BlockInSplitLoops(block, loops)
    fused = loops[first]
    bounds = _bounds(part for e in (*block.bindings, *block.guards) for part in _parts(e, fused.var))
    if len(bounds) < 2:
        return BlockInSplitLoops(block, loops)
    digits = _Digits(fused, bounds)
    apart = replace(
        block,
        bindings=tuple(map(digits.rewrite_index, block.bindings)),
        guards=tuple(map(digits.rewrite_index, block.guards)),
    )
    own = digits.loops()
    return BlockInSplitLoops(apart, (*loops[:first], *own, *loops[first + 1 :]), first, len(own) - 1)


def _parts(node: Node, var: str) -> Iterator[_Part]:
    """What each index below depends on of a loop."""
    if not isinstance(node, Expr) or var not in free_vars(node):
        return
    part = _part(node, var)
    if part is not None:
        yield part
        return
    for child in node.children():
        yield from _parts(child, var)


def _part(e: Expr, var: str) -> _Part | None:
    match e:
        case Var(name) if name == var:
            return _Part(_ONE, None)
        case Binary(BinOp.FLOORDIV, Var(name), low) if name == var and var not in free_vars(low):
            return _Part(to_poly(low), None)
        case Binary(BinOp.MOD, inner, size) if var not in free_vars(size):
            of = _part(inner, var)
            return _Part(of.low, multiply(of.low, to_poly(size))) if of is not None and of.high is None else None
    return None


def _bounds(parts: Iterator[_Part]) -> list[Poly]:
    """Where parts begin and end, each a multiple of the one before, from 1; only the first where they are no such
    chain."""
    found = {frozenset(bound.items()): bound for part in parts for bound in part if bound is not None}
    if any(len(bound) != 1 for bound in found.values()):
        return [_ONE]
    ordered = sorted(found.values(), key=_bound_size)
    bounds = [_ONE, *(bound for bound in ordered if bound != _ONE)]
    return bounds if all(divide_out(outer, inner)[1] == {} for inner, outer in pairwise(bounds)) else [_ONE]


def _bound_size(bound: Poly) -> tuple[int, int]:
    ((factors, number),) = bound.items()
    return len(factors), number


class _Digits:
    """The loops that a loop is taken apart into: number `n` counts from `bounds[n]` to the next."""

    def __init__(self, fused: For, bounds: Sequence[Poly]) -> None:
        self._fused = fused
        self._bounds = bounds
        ends = [_quotient(outer, inner) for inner, outer in pairwise(bounds)]
        self._extents = [*ends, simplify(Binary(BinOp.CEILDIV, fused.extent, from_poly(bounds[-1])))]

    def loops(self) -> tuple[For, ...]:
        """Outermost first. Loops that do not iterate are left out."""
        kept = [n for n in reversed(range(len(self._bounds))) if self._extents[n] != ONE] or [0]
        out = [replace(self._fused, var=self._name(kept[-1]), extent=self._extents[kept[-1]])]
        for n in reversed(kept[:-1]):
            out.insert(0, replace(self._fused, var=self._name(n), extent=self._extents[n], body=out[0]))
        return tuple(out)

    def rewrite_index(self, e: Expr) -> Expr:
        """An index over these loops."""
        if self._fused.var not in free_vars(e):
            return e
        part = _part(e, self._fused.var)
        return e.map(self._rewrite_node) if part is None else self._value(part)

    def _rewrite_node(self, node: Node) -> Node:
        return self.rewrite_index(node) if isinstance(node, Expr) else node

    def _name(self, n: int) -> str:
        return f"{self._fused.var}.{n}"

    def _value(self, part: _Part) -> Expr:
        first = self._bounds.index(part.low)
        end = len(self._bounds) if part.high is None else self._bounds.index(part.high)
        total: Expr = ZERO
        for n in range(first, end):
            if self._extents[n] != ONE:
                weight = _quotient(self._bounds[n], part.low)
                total = Binary(BinOp.ADD, total, Binary(BinOp.MUL, Var(self._name(n)), weight))
        return simplify(total)


def _quotient(outer: Poly, inner: Poly) -> Expr:
    return from_poly(divide_out(outer, inner)[0])
