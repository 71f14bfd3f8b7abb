"""Guards that other guards imply.

Splitting a loop keeps the guards that were there, and each is over all digits of an index: that of an inner tile is
implied by that of the loops around it, and without it the whole tile runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from metasched.ir.integers.affine import NotAffine, as_int, const, free_vars, linear, simplify
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import Binary, BinOp, Expr


def drop_implied_guards(
    guards: Sequence[Expr], ranges: Mapping[str, Expr], reduced: frozenset[str]
) -> tuple[Expr, ...]:
    """The guards without those that hold wherever another one does, for loops of these ranges.

    One over loops in `reduced` leaves out terms, another one elements: elements are left out only by their own guards.
    """
    kept = list(guards)
    for guard in guards:
        others = [other for other in kept if other != guard and _may_stand_for(other, guard, reduced)]
        if free_vars(guard) <= ranges.keys() and is_implied(guard, others, ranges):
            kept.remove(guard)
    return tuple(kept)


def _may_stand_for(other: Expr, guard: Expr, reduced: frozenset[str]) -> bool:
    return not free_vars(other) & reduced or free_vars(guard) <= reduced


def is_implied(guard: Expr, others: Iterable[Expr], ranges: Mapping[str, Expr]) -> bool:
    """Whether another upper bound, times a number, gives this one: `16*s + j < 16` by `s < 1`, where `j < 16`."""
    if not _is_upper_bound(guard):
        return False
    return any(_is_upper_bound(other) and _follows(guard, other, ranges) for other in others)


def _is_upper_bound(guard: Expr) -> bool:
    return isinstance(guard, Binary) and guard.op is BinOp.LT


def _follows(guard: Expr, other: Expr, ranges: Mapping[str, Expr]) -> bool:
    assert isinstance(guard, Binary)
    assert isinstance(other, Binary)
    value, limit = guard.a - guard.b, other.a - other.b
    factor = _ratio(limit, value, frozenset(ranges))
    if factor is None:
        return False
    # Where the other holds, `limit <= -1`, so `value` is at most this:
    highest = value - limit * const(factor) - const(factor)
    return prove(Binary(BinOp.LT, highest, const(0)), ranges) is True


def _ratio(part: Expr, whole: Expr, loops: frozenset[str]) -> int | None:
    """How often `part` is in `whole`, a positive number; None where it isn't."""
    try:
        terms, found = linear(part, loops)[1], linear(whole, loops)[1]
    except NotAffine:
        return None
    for term, step in terms.items():
        wanted = found.get(term)
        times = None if wanted is None else as_int(simplify(wanted // step))
        if times is None or times < 1 or simplify(step * const(times)) != simplify(wanted):
            return None
        return times
    return None
