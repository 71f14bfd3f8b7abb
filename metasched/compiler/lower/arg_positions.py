"""The positions of an arg-reduction: in which order they come, where they start, and how small a type holds them.

Of two equal values the first position wins, whatever the schedule. Where the loops visit the positions of an element in
rising order, what was found earlier is the first, and positions need not be compared. It takes one more thing: that the
position starts from the first one rather than from none. If all values are what values start from, the first wins.
Nor may another statement update the element in between, as the other part of a partitioned loop does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.compiler.lower.nest import ArgPositions, Assign, NestStmt, Path, assigns, loads, map_assigns
from metasched.dtypes import INDEX, DType, signed_integers
from metasched.ir.integers.affine import ZERO, NotAffine, as_int, coefficient, free_vars, simplify, substitute
from metasched.ir.integers.ranges import bounds, prove
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, no_position


def positions_of(update: Assign, array: str, value: Expr, ranges: Mapping[str, Expr]) -> ArgPositions:
    """The positions of a reduction `update` among loops of the ranges given, outermost first.

    Without an `init`, as where a reduction is decomposed, they start from none.
    """
    plain = ArgPositions(array, update.indices, value, value.dtype)
    if update.init is None:
        return plain
    own = update.reduction - update.spatial
    index = position_index(value)
    loops = [var for var in ranges if var in own]
    if index is None or not _positions_rise(index, loops, update, ranges) or not _has_first_terms(update, ranges):
        return replace(plain, init=no_position(value.dtype))
    first = as_int(substitute(index, dict.fromkeys(own, ZERO)))
    last = as_int(bounds(index, ranges).hi)
    assert first is not None
    assert last is not None
    narrow = _narrowest_type(update.value.dtype, value.dtype, last)
    return replace(plain, init=Const(first, value.dtype), rising=True, narrow=narrow)


def compare_shared_positions(stmt: NestStmt) -> NestStmt:
    """`stmt` where positions are compared if another statement finds some of the same element in the same loops."""
    shared = {a.block for path, a in assigns(stmt) if not _is_only_writer(path, a)}
    if not shared:
        return stmt

    def compare(a: Assign) -> Assign:
        if a.block not in shared or a.positions is None:
            return a
        kind = a.positions.value.dtype
        return replace(a, positions=replace(a.positions, init=no_position(kind), rising=False, narrow=kind))

    return map_assigns(stmt, compare)


def _is_only_writer(path: Path, update: Assign) -> bool:
    """Whether nothing else writes positions that rise while the loops of their reduction run."""
    if update.positions is None or not update.positions.rising:
        return True
    own = update.reduction - update.spatial
    inside = next((loop for loop in path if loop.var in own), None)
    array = update.positions.array
    return inside is None or all(a is update or array not in a.written for _, a in assigns(inside))


def position_index(value: Expr) -> Expr | None:
    """A position as index arithmetic; None where it is read from memory, as those of an `rfactor`."""
    index = value.value if isinstance(value, Cast) else value
    return None if index.dtype is not INDEX or any(True for _ in loads(index)) else simplify(index)


def cast_position(value: Expr, dtype: DType) -> Expr:
    """Cast a position to another type that holds it."""
    if value.dtype is dtype:
        return value
    index = position_index(value)
    if isinstance(index, Const):
        return Const(index.value, dtype)
    if index is None:
        return Cast(value, dtype)
    return index if dtype is INDEX else Cast(index, dtype)


def _positions_rise(index: Expr, loops: list[str], update: Assign, ranges: Mapping[str, Expr]) -> bool:
    """Whether a position depends on the loops alone, given outermost first, and rises as they run."""
    spans: dict[str, int] = {}
    try:
        for var in reversed(loops):
            step, extent = as_int(coefficient(index, var)), as_int(ranges[var])
            if step is None or extent is None or step <= _loop_reach(index, spans, update):
                return False
            spans[var] = step * (extent - 1)
    except NotAffine:
        return False
    return as_int(substitute(index, dict.fromkeys(loops, ZERO))) is not None


def _loop_reach(index: Expr, spans: Mapping[str, int], update: Assign) -> int:
    """How far loops move a position: each by its span, or several by what a guard leaves of an imperfect tile."""
    free = dict(spans)
    reach = 0
    for guard in update.guards:
        names = free_vars(guard)
        if names <= free.keys() and isinstance(guard, Binary) and guard.op is BinOp.LT:
            room = simplify(Binary(BinOp.SUB, guard.b, guard.a))
            most = as_int(substitute(room, dict.fromkeys(names, ZERO)))
            scales = {_exact_quotient(as_int(coefficient(index, var)), as_int(coefficient(room, var))) for var in names}
            (scale, *others) = scales or {None}
            if scale is not None and most is not None and not others:
                reach += scale * (most - 1)
                free = {var: span for var, span in free.items() if var not in names}
    return reach + sum(free.values())


def _exact_quotient(step: int | None, fall: int | None) -> int | None:
    """How much a position moves where the room of a guard shrinks by one."""
    return None if step is None or fall is None or fall >= 0 or step % fall else step // -fall


def _has_first_terms(update: Assign, ranges: Mapping[str, Expr]) -> bool:
    """Whether the first term of every element that is there is there, too."""
    own = update.reduction - update.spatial
    return all(
        prove(substitute(guard, dict.fromkeys(own, ZERO)), ranges) is True
        for guard in update.guards
        if not own.isdisjoint(free_vars(guard))
    )


def _narrowest_type(values: DType, positions: DType, last: int) -> DType:
    """The smallest type for accumulators that holds all positions, its lanes no narrower than those of the values."""
    for dtype in signed_integers():
        if dtype.bits >= min(values.compute.bits, positions.bits) and last < 1 << (dtype.bits - 1):
            return dtype if dtype.bits < positions.bits else positions
    return positions
