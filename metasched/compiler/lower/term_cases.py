"""Terms that part of a register tile has: code for the whole tile, and for each part of it that occurs.

Of the columns of a tile, some read padding where others do not, and so have no such term. Which ones is the same for
all iterations of a loop over further terms, such as those of the channels: it is asked once before that loop. For the
conditions that are bounds on one unrolled loop of the tile, the values of the loops around say which parts occur; each
is a case of its own, whose conditions on the tile are known when it is emitted. Where many parts occur the whole tile
is a case, and in any other the conditions stay where they are, asked for each element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from metasched.compiler.lower.nest import (
    Assign,
    NestLoop,
    NestStmt,
    Path,
    When,
    assigns,
    join_statements,
    map_assigns,
    map_children,
)
from metasched.compiler.lower.specialise import shorten_loops
from metasched.compiler.lower.unroll import count_copies
from metasched.compiler.policy import MOST_STATEMENTS_IN_TERM_CASES, MOST_TERM_CASES
from metasched.ir.integers.affine import NotAffine, as_int, const, free_vars, linear, simplify, substitute
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Binary, BinOp, Expr, LoopKind, Var
from metasched.support.data_classes import dataclass

# Values of the loops around a tile that are looked at.
_MOST_VALUES = 1 << 14

_NEGATED = {BinOp.LT: BinOp.GE, BinOp.LE: BinOp.GT, BinOp.GT: BinOp.LE, BinOp.GE: BinOp.LT}


@dataclass(frozen=True)
class _Bound:
    """A guard that the first iterations of an unrolled loop meet, or the last ones. `around` are the loops that say how
    many do."""

    guard: Binary
    loop: NestLoop
    is_upper: bool
    around: frozenset[str]

    def at(self, iteration: int) -> Binary:
        """The guard in one iteration of the loop."""
        found = simplify(substitute(self.guard, {self.loop.var: const(iteration)}))
        assert isinstance(found, Binary)
        return found

    def met(self, count: int) -> Expr:
        """That it is one of the `count` iterations that meet the guard."""
        if self.is_upper:
            return Binary(BinOp.LT, Var(self.loop.var), const(count))
        return Binary(BinOp.GE, Var(self.loop.var), const(self.loop.extent - count))

    def is_met_by(self, count: int) -> tuple[Expr, ...]:
        """That the guard is met by so many iterations, at least one."""
        extent = self.loop.extent
        last = count - 1 if self.is_upper else extent - count
        if count == extent:
            return (self.at(last),)
        beyond = self.at(count if self.is_upper else last - 1)
        return self.at(last), Binary(_NEGATED[beyond.op], beyond.a, beyond.b)


def split_terms_by_tile(stmt: NestStmt, path: Path = ()) -> NestStmt:
    """`stmt` with the updates of register tiles that have some terms in part only split into cases."""
    if not isinstance(stmt, NestLoop):
        return map_children(stmt, lambda child: split_terms_by_tile(child, path))
    found = _bounds_of_tile(stmt, {loop.var: loop for loop in path})
    cases = _split_cases(stmt, found, path) if found else None
    if cases is not None:
        return cases
    return map_children(stmt, lambda child: split_terms_by_tile(child, (*path, stmt)))


def _bounds_of_tile(loop: NestLoop, around: Mapping[str, NestLoop]) -> list[_Bound]:
    """The bounds on unrolled loops that all statements in a loop over terms are under, and that it does not change."""
    if loop.kind is not LoopKind.SERIAL or loop.tensor is not None:
        return []
    found = list(assigns(loop.body))
    guards = found[0][1].guards if found else ()
    if any(loop.var not in a.reduction or a.in_memory or a.guards != guards for _, a in found):
        return []
    straight = {x.var: x for inner, _ in found for x in inner if x.unroll and not x.is_vector}
    bounds = [_as_bound(guard, straight, around) for guard in guards if not free_vars(guard).isdisjoint(straight)]
    return [] if None in bounds else [bound for bound in bounds if bound is not None]


def _as_bound(guard: Expr, straight: Mapping[str, NestLoop], around: Mapping[str, NestLoop]) -> _Bound | None:
    if not isinstance(guard, Binary) or guard.op not in _NEGATED or depends_on_data(guard):
        return None
    used = free_vars(guard)
    tile, outer = used.intersection(straight), used.intersection(around)
    if len(tile) != 1 or used != tile | outer or all(around[var].unroll for var in outer):
        return None
    (var,) = tile
    try:
        _, steps = linear(simplify(Binary(BinOp.SUB, guard.a, guard.b)), tile)
    except NotAffine:
        return None
    step = as_int(steps.get(Var(var), const(0)))
    if not step or len(steps) != 1:
        return None
    return _Bound(guard, straight[var], (step > 0) is (guard.op in (BinOp.LT, BinOp.LE)), outer)


def _split_cases(stmt: NestLoop, bounds: Sequence[_Bound], path: Path) -> NestStmt | None:
    """A case for each part of the tile that occurs, or for the whole; None where that is too much code."""
    around = [loop for loop in path if any(loop.var in bound.around for bound in bounds)]
    if prod(loop.extent for loop in around) > _MOST_VALUES:
        return None
    parts = [part for part in _parts(bounds, around) if all(part)]
    most = MOST_STATEMENTS_IN_TERM_CASES // max(count_copies(stmt, tuple(x for x in path if x.unroll)), 1)
    if len(parts) <= min(MOST_TERM_CASES, most):
        return join_statements([_case(stmt, bounds, part) for part in parts])
    return join_statements(_whole_or_not(stmt, bounds)) if most > 1 else None


def _parts(bounds: Sequence[_Bound], around: Sequence[NestLoop]) -> list[tuple[int, ...]]:
    """The numbers of iterations that meet the bounds, those that occur together, the largest first."""
    values = np.indices([loop.extent for loop in around]).reshape(len(around), -1)
    env = {loop.var: row for loop, row in zip(around, values, strict=True)}
    counts = np.array([_count(bound, env, values.shape[1]) for bound in bounds])
    return sorted((tuple(map(int, part)) for part in np.unique(counts, axis=1).T), reverse=True)


def _count(bound: _Bound, env: Mapping[str, NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    met = Evaluator([bound.at(n) for n in range(bound.loop.extent)])(env)
    count: NDArray[np.int64] = np.sum([np.broadcast_to(x, size) for x in met], axis=0)
    return count


def _whole_or_not(stmt: NestLoop, bounds: Sequence[_Bound]) -> list[NestStmt]:
    """A case for the whole tile, and one for any part of it, whose elements are asked one by one."""
    whole = _case(stmt, bounds, tuple(bound.loop.extent for bound in bounds))
    assert isinstance(whole, When)
    lacking = [Binary(_NEGATED[cond.op], cond.a, cond.b) for cond in whole.conds if isinstance(cond, Binary)]
    return [whole, When((reduce(partial(Binary, BinOp.OR), lacking),), stmt)]


def _case(stmt: NestLoop, bounds: Sequence[_Bound], part: tuple[int, ...]) -> NestStmt:
    instead: dict[Expr, tuple[Expr, ...]] = {
        bound.guard: () if count == bound.loop.extent else (bound.met(count),)
        for bound, count in zip(bounds, part, strict=True)
    }

    def decided(a: Assign) -> Assign:
        return replace(a, guards=tuple(kept for guard in a.guards for kept in instead.get(guard, (guard,))))

    conds = [cond for bound, count in zip(bounds, part, strict=True) for cond in bound.is_met_by(count)]
    return When(tuple(dict.fromkeys(conds)), shorten_loops(map_assigns(stmt, decided)))
