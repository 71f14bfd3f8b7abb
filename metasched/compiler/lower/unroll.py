"""Which loops are unrolled.

A loop of kind `unrolled` always is. Under an unroll limit, the innermost run of loops around a statement is, as far
out as the product of its steps stays within the limit; a vectorised loop counts its strips. A limit on a loop
holds inside it, itself included, and the nearest one counts; a limit on a block holds for the run above it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from metasched.compiler.lower.nest import (
    Assign,
    Many,
    NestLoop,
    NestRegion,
    NestStmt,
    Path,
    When,
    join_statements,
    sequence,
)
from metasched.compiler.lower.residues import drop_multiples
from metasched.compiler.policy import MAX_COPIES, joins_unrolled
from metasched.errors import BuildError
from metasched.ir.integers.affine import const, free_vars, substitute
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import Expr, LoopKind
from metasched.support.data_classes import dataclass

_MOST_CHECKED_VALUES = 256


@dataclass(frozen=True)
class _Run:
    """The run so far: copies of the statement, None when an outer loop can no longer join."""

    copies: int | None
    limit: int | None  # the block's own
    nearest: int | None = None  # what the innermost loop is under


def mark_unrolled(stmt: NestStmt) -> NestStmt:
    """`stmt` with `unroll` set on every loop that is to be unrolled."""
    return _mark_loops(stmt)[0]


def _mark_loops(stmt: NestStmt) -> tuple[NestStmt, _Run]:
    if isinstance(stmt, Assign):
        return stmt, _Run(1, stmt.limit)
    if isinstance(stmt, Many):
        return join_statements([_mark_loops(child)[0] for child in stmt.stmts]), _Run(None, None)
    if isinstance(stmt, NestRegion):
        return NestRegion(tuple(_mark_loops(child)[0] for child in stmt.phases)), _Run(None, None)
    assert isinstance(stmt, NestLoop)
    body, run = _mark_loops(stmt.body)
    innermost = isinstance(stmt.body, Assign)
    nearest = stmt.limit if innermost else run.nearest
    by_limit = not stmt.unroll and _joins_run(stmt, run, nearest)
    unroll = stmt.unroll or by_limit
    # Of a scattered loop one iteration is run, in straight code.
    straight = unroll or stmt.kind is LoopKind.SCATTERED
    copies = run.copies * stmt.steps if run.copies is not None and straight else None
    if stmt.tensor is not None:
        copies = 1  # One statement does all of it.
    return replace(stmt, body=body, unroll=unroll, by_limit=by_limit), _Run(copies, run.limit, nearest)


def _joins_run(loop: NestLoop, run: _Run, nearest: int | None) -> bool:
    if run.copies is None or loop.kind in (LoopKind.PARALLEL, LoopKind.SCATTERED):
        return False
    limit = run.limit if run.limit is not None else nearest if loop.limit is not None else None
    return limit is not None and bool(joins_unrolled(run.copies * loop.steps, limit))


def check_copies(stmt: NestStmt) -> None:
    """Raises BuildError when unrolling repeats statements more than MAX_COPIES times in all.

    Copies that a condition on unrolled loops alone leaves out do not count.
    """
    copies = count_copies(stmt, ())
    if copies > MAX_COPIES:
        raise BuildError("unroll too large", f"unrolling makes {copies} statements; at most {MAX_COPIES} are emitted")


def count_copies(stmt: NestStmt, unrolled: Path) -> int:
    """The copies of statements that are made of `stmt` inside these unrolled loops."""
    if isinstance(stmt, NestLoop):
        if stmt.tensor is not None:
            return 1
        return count_copies(stmt.body, (*unrolled, stmt) if stmt.unroll else unrolled)
    if isinstance(stmt, Many | NestRegion):
        return sum(count_copies(child, unrolled) for child in sequence(stmt))
    if isinstance(stmt, When):
        return count_copies(stmt.body, unrolled)
    assert isinstance(stmt, Assign)
    made = prod(loop.steps for loop in unrolled)
    counted: set[str] = set()
    for guard in map(drop_multiples, stmt.guards):
        inside = [loop for loop in unrolled if loop.var in free_vars(guard)]
        names = {loop.var for loop in inside}
        if free_vars(guard) <= names and counted.isdisjoint(names):
            counted |= names
            made -= made * _count_left_out(guard, inside) // prod(loop.extent for loop in inside)
    return made


def _count_left_out(guard: Expr, loops: list[NestLoop]) -> int:
    """For how many values of the loops a condition does not hold; 0 where there are too many to look at."""
    if any(loop.is_vector for loop in loops) or prod(loop.extent for loop in loops) > _MOST_CHECKED_VALUES:
        return 0
    values = product(*(range(loop.extent) for loop in loops))
    names = [loop.var for loop in loops]
    return sum(prove(substitute(guard, dict(zip(names, map(const, at), strict=True))), {}) is False for at in values)
