"""Splits imperfect tiles into code for the full tile and code for the rest.

A guard `base + inner < N` of an unrolled tile, where `inner` runs over 0 .. T-1 in unrolled loops and `base` over
multiples of T outside, leaves three cases: the whole tile, its first `N % T` elements, or nothing. What is under the
guard is emitted for the first two (where there is a rest), each with a condition that is known when it is emitted,
below the innermost loop that `base` depends on. So no branch is left inside the loops of a reduction, and accumulators
stay in registers. Where `base` runs over other numbers, as in strips of 73 rows in tiles of 5, the rest is not always
the same part: what is under the guard is emitted for the whole tile, and as it was for the others, which are few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metasched.compiler.lower.nest import (
    Assign,
    Many,
    NestLoop,
    NestRegion,
    NestStmt,
    Path,
    When,
    assigns,
    join_statements,
    map_assigns,
    map_children,
)
from metasched.compiler.policy import SPECIALISED_CASES
from metasched.ir.integers.affine import NotAffine, as_int, const, free_vars, linear, simplify, substitute
from metasched.ir.integers.ranges import bounds
from metasched.ir.nodes import Binary, BinOp, Expr, Load, Var
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class _Split:
    """A guard as `base + inner < limit`, with 0 <= inner < tile. `is_even`: `base` runs over multiples of `tile`."""

    guard: Expr
    base: Expr
    inner: Expr
    limit: int
    tile: int
    is_even: bool

    @property
    def rest(self) -> int:
        return self.limit % self.tile

    @property
    def is_full(self) -> Expr:
        return Binary(BinOp.LE, self.base, const(self.limit - self.tile))

    @property
    def is_partial(self) -> Expr:
        return Binary(BinOp.EQ, self.base, const(self.limit - self.rest))

    @property
    def is_any_part(self) -> Expr:
        return Binary(BinOp.LT, const(self.limit - self.tile), self.base)

    @property
    def in_rest(self) -> Expr:
        return simplify(Binary(BinOp.LT, self.inner, const(self.rest)))


def specialise(stmt: NestStmt) -> NestStmt:
    """`stmt` with the imperfect tiles of its unrolled loops split into cases."""
    return _visit(shorten_loops(stmt), (), SPECIALISED_CASES)


def _visit(stmt: NestStmt, path: Path, copies: int) -> NestStmt:
    if isinstance(stmt, Many):
        return join_statements([_visit(child, path, copies) for child in stmt.stmts])
    if isinstance(stmt, NestRegion):
        return map_children(stmt, lambda phase: _visit(phase, path, copies))
    if isinstance(stmt, When):
        return replace(stmt, body=_visit(stmt.body, path, copies))
    if not isinstance(stmt, NestLoop) or stmt.tensor is not None:
        return stmt
    inside = (*path, stmt)
    body = stmt.body
    if copies > 1:
        for split in _find_splits(stmt, inside):
            forked = _split_cases(body, split, inside, copies)
            if forked is not body:
                return replace(stmt, body=forked)
    return replace(stmt, body=_visit(body, inside, copies))


def _find_splits(loop: NestLoop, path: Path) -> list[_Split]:
    """The guards below a loop whose base depends on it, and on no loop below it.

    Not those that are known when they are emitted: cases for them, inside a reduction, would keep its accumulators in
    memory.
    """
    found: dict[tuple[Expr, Expr], _Split] = {}
    for inner, assign in assigns(loop.body):
        for guard in assign.guards:
            split = _find_split(guard, path, inner, assign)
            if split is None or loop.var not in free_vars(split.base):
                continue
            if not all(_is_straight_code(x) for x in path if x.var in free_vars(split.base)):
                found.setdefault((split.base, const(split.limit)), split)
    return list(found.values())


def _find_split(guard: Expr, path: Path, inner: Path, assign: Assign) -> _Split | None:
    """The split that a guard of an assignment makes, where the loops `inner` are below `path`; None without one."""
    if not (isinstance(guard, Binary) and guard.op is BinOp.LT):
        return None
    used = free_vars(guard)
    tile = {x.var: x for x in inner if x.var in used}
    outer = {x.var for x in path if x.var in used}
    if not tile or not outer or used != outer | tile.keys():
        return None
    if not used <= assign.spatial - assign.reduction or not all(_is_straight_code(x) for x in tile.values()):
        return None
    return _split_guard(guard, outer, tile)


def _is_straight_code(loop: NestLoop) -> bool:
    """Whether a loop is straight code, so that a constant condition on its variable is decided in emission."""
    return loop.unroll or (loop.is_vector and loop.extent <= loop.lanes)


def _split_guard(guard: Binary, outer: set[str], tile: dict[str, NestLoop]) -> _Split | None:
    """`base + inner < limit`, where `base` grows with the outer loops and never is negative."""
    difference = simplify(Binary(BinOp.SUB, guard.a, guard.b))
    zero = dict.fromkeys((*outer, *tile), const(0))
    offset = as_int(substitute(difference, zero))
    inner = simplify(substitute(difference, {var: const(0) for var in outer}))
    base = simplify(substitute(difference, {var: const(0) for var in tile}))
    if offset is None or offset >= 0:
        return None
    inner = simplify(Binary(BinOp.SUB, inner, const(offset)))
    base = simplify(Binary(BinOp.SUB, base, const(offset)))
    if simplify(Binary(BinOp.SUB, difference, Binary(BinOp.ADD, base, inner))) != const(offset):
        return None
    try:
        range_ = bounds(inner, {var: const(x.extent) for var, x in tile.items()})
        # Where loops are fused, the tile starts at a multiple of a quotient or a remainder: neither is negative.
        steps = [as_int(step) for step in linear(base, frozenset(outer))[1].values()]
    except NotAffine:
        return None
    low, high = as_int(range_.lo), as_int(range_.hi)
    if low != 0 or high is None or any(step is None or step <= 0 for step in steps):
        return None
    is_even = not any(step % (high + 1) for step in steps if step is not None)
    return _Split(guard, base, inner, -offset, high + 1, is_even)


def _split_cases(stmt: NestStmt, split: _Split, path: Path, copies: int, crossed: Path = ()) -> NestStmt:
    """`stmt` with what is all under the guard in two cases; `stmt` itself where there is nothing to gain.

    `crossed` are the loops between those of `path` and `stmt`.
    """
    if _all_guarded(stmt, split, path):
        if not (_holds_reductions(stmt, crossed) or _is_transposition(stmt) or _picks_apart_lanes(stmt)):
            return stmt
        full = _replace_guard(stmt, split, path, lambda own: ())
        if not split.is_even:
            whole = _visit_case(
                full, path, copies, crossed
            )  # the others are a single copy, whatever other guards there are
            return Many((When((split.is_full,), whole), When((split.is_any_part,), stmt)))
        if not split.rest:  # the tile is perfect, and some are left out altogether
            return When((split.is_full,), _visit_case(full, path, copies, crossed))
        part = shorten_loops(_replace_guard(stmt, split, path, lambda own: (own.in_rest,)))
        cases = [(split.is_full, full), (split.is_partial, part)]
        return Many(tuple(When((cond,), _visit_case(case, path, copies // 2, crossed)) for cond, case in cases))
    if isinstance(stmt, Many):
        return _split_sequence(stmt, split, path, copies, crossed)
    if isinstance(stmt, NestRegion):
        return map_children(stmt, lambda phase: _split_inside(phase, split, path, copies, crossed))
    return _split_inside(stmt, split, path, copies, crossed)


def _split_inside(stmt: NestStmt, split: _Split, path: Path, copies: int, crossed: Path) -> NestStmt:
    """As `_split_cases`, where a loop stays one: a phase of a region is a single loop."""
    if isinstance(stmt, NestLoop) and stmt.tensor is None:
        body = _split_cases(stmt.body, split, path, copies, (*crossed, stmt))
        return stmt if body is stmt.body else replace(stmt, body=body)
    return stmt


def _visit_case(stmt: NestStmt, path: Path, copies: int, crossed: Path) -> NestStmt:
    """Visit a case for its other guards, those included whose base belongs to a loop between the split and the case."""
    inside = (*path, *crossed)
    for loop in (path[-1], *crossed) if copies > 1 else ():
        for split in _find_splits(replace(loop, body=stmt), inside):
            forked = _split_cases(stmt, split, inside, copies)
            if forked is not stmt:
                return forked
    return _visit(stmt, inside, copies)


def _split_sequence(stmt: Many, split: _Split, path: Path, copies: int, crossed: Path) -> NestStmt:
    """Neighbours under the guard go together: the start of a reduction stays beside it."""
    out: list[NestStmt] = []
    group: list[NestStmt] = []
    changed = False

    def close() -> bool:
        if not group:
            return False
        together = join_statements(group)
        forked = _split_cases(together, split, path, copies, crossed)
        out.append(forked)
        group.clear()
        return forked is not together

    for child in stmt.stmts:
        if _all_guarded(child, split, path):
            group.append(child)
            continue
        changed = close() or changed
        forked = _split_cases(child, split, path, copies, crossed)
        changed = changed or forked is not child
        out.append(forked)
    changed = close() or changed
    return join_statements(out) if changed else stmt


def _all_guarded(stmt: NestStmt, split: _Split, path: Path) -> bool:
    """Whether every assignment is guarded alike, each over its own loops of the tile; `path` is around the split."""
    found = list(assigns(stmt))
    under = all(_matching_guard(a, split, path, inner) is not None for inner, a in found)
    return bool(found) and under


def _matching_guard(assign: Assign, split: _Split, path: Path, inner: Path) -> _Split | None:
    """The guard of an assignment that leaves out what `split` does."""
    for guard in assign.guards:
        own = _find_split(guard, path, inner, assign)
        if own is not None and (own.base, own.limit, own.tile) == (split.base, split.limit, split.tile):
            return own
    return None


def _holds_reductions(stmt: NestStmt, crossed: Path) -> bool:
    """Whether there is a reduction, and cases here leave its accumulators in registers.

    What is in memory anyway, such as a sum of partial sums, has none.
    """
    updates = [(inner, a) for inner, a in assigns(stmt) if a.reducer is not None and not a.in_memory]
    return bool(updates) and all(_stays_held(a, inner, crossed) for inner, a in updates)


def _stays_held(assign: Assign, inner: Path, crossed: Path) -> bool:
    """Whether a reduction has accumulators in registers where cases are between the loops `crossed` and `inner`.

    Cases inside a loop of the reduction would keep them in memory, unless another such loop is inside them, or they are
    in memory from one iteration of that loop to the next anyway: where other elements come between.
    """
    last = max((n for n, x in enumerate(crossed) if x.var in assign.reduction), default=None)
    if last is None:
        return True
    deeper = (*crossed[last + 1 :], *inner)
    moves = any(x.var in assign.spatial and x.var not in assign.reduction and not _is_straight_code(x) for x in deeper)
    return moves or any(x.var in assign.reduction and not x.unroll for x in inner)


def _is_transposition(stmt: NestStmt) -> bool:
    """Whether lanes read apart what iterations of an unrolled loop read side by side, and nothing is reduced.

    Whole tiles are transposed in registers, which takes code without conditions.
    """
    return all(a.reducer is None and _reads_transposed(inner, a) for inner, a in assigns(stmt))


def _picks_apart_lanes(stmt: NestStmt) -> bool:
    """Whether lanes read what is not side by side, and nothing is reduced.

    What is near is loaded and shuffled, but under conditions gathered.
    """
    return all(a.reducer is None for _, a in assigns(stmt)) and any(
        _reads_apart(inner, a) for inner, a in assigns(stmt)
    )


def _reads_apart(inner: Path, assign: Assign) -> bool:
    lanes = {x.var for x in inner if x.is_vector}
    return any(
        isinstance(load, Load) and load.indices != assign.indices and _is_apart(load.indices, lanes)
        for load in assign.value.walk()
    )


def _is_apart(indices: tuple[Expr, ...], lanes: set[str]) -> bool:
    """Whether lanes differ in another index than the last, or there by more than one."""
    if not lanes or not indices:
        return False
    *outer, last = indices
    if any(lanes & free_vars(index) for index in outer):
        return True
    try:
        _, terms = linear(last, frozenset(lanes))
    except NotAffine:
        return True
    return any(not isinstance(atom, Var) or as_int(step) != 1 for atom, step in terms.items())


def _reads_transposed(inner: Path, assign: Assign) -> bool:
    lanes = {x.var for x in inner if x.is_vector}
    repeated = {x.var for x in inner if x.unroll and not x.is_vector}
    for load in assign.value.walk():
        if isinstance(load, Load) and load.indices:
            *apart, last = map(free_vars, load.indices)
            if lanes and last & repeated and last.isdisjoint(lanes) and lanes & frozenset[str]().union(*apart):
                return True
    return False


def _replace_guard(
    stmt: NestStmt, split: _Split, path: Path, instead: Callable[[_Split], tuple[Expr, ...]]
) -> NestStmt:
    """`stmt` with what `instead` gives in place of the guard."""

    def rewrite(inner: Path, stmt: NestStmt) -> NestStmt:
        if isinstance(stmt, Assign):
            own = _matching_guard(stmt, split, path, inner)
            assert own is not None
            return replace(stmt, guards=tuple(g for g in stmt.guards if g != own.guard) + instead(own))
        deeper = (*inner, stmt) if isinstance(stmt, NestLoop) else inner
        return map_children(stmt, lambda child: rewrite(deeper, child))

    return rewrite((), stmt)


def shorten_loops(stmt: NestStmt) -> NestStmt:
    """`stmt` with loops whose every iteration from some on is left out shortened."""
    if not isinstance(stmt, NestLoop):
        return map_children(stmt, shorten_loops)
    return shorten_loop(replace(stmt, body=shorten_loops(stmt.body)))


def shorten_loop(loop: NestLoop) -> NestLoop:
    """A loop without the iterations from which on all of it is left out."""
    body = loop.body
    limits = {
        guard: extent for _, a in assigns(body) for guard in a.guards if (extent := _guard_limit(guard, loop.var))
    }
    for guard, extent in limits.items():
        if extent > 0 and all(guard in a.guards for _, a in assigns(body)):
            return replace(loop, extent=min(extent, loop.extent), body=_drop_guard(body, guard))
    return loop


def _guard_limit(guard: Expr, var: str) -> int | None:
    """The extent that a guard `var + N < M` leaves."""
    if not (isinstance(guard, Binary) and guard.op is BinOp.LT) or free_vars(guard) != {var}:
        return None
    return as_int(Binary(BinOp.SUB, guard.b, Binary(BinOp.SUB, guard.a, Var(var))))


def _drop_guard(stmt: NestStmt, guard: Expr) -> NestStmt:
    return map_assigns(stmt, lambda a: replace(a, guards=tuple(g for g in a.guards if g != guard)))
