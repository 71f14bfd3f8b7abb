"""Bounds and regions of index arithmetic over loop ranges, and comparisons that they prove.

Loop variables range over `[0, extent)`; every other variable is a free tile variable, at least 1. So every variable is
non-negative, and a polynomial whose coefficients are all non-negative is non-negative.
"""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import INDEX
from metasched.ir.integers.affine import (
    DIVISIONS,
    POLY_OPERATIONS,
    NotAffine,
    const,
    free_vars,
    from_poly,
    split_inner,
    to_poly,
    touches,
)
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.polynomial import Monomial, Poly, add, is_positive_divisor, multiply, subtract
from metasched.ir.nodes import Binary, BinOp, Const, Expr, ScalarVar, Select, Var
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Interval:
    """Inclusive bounds."""

    lo: Expr
    hi: Expr


def is_nonnegative(e: Expr) -> bool:
    """Whether `e >= 0` follows from every variable being non-negative."""
    return _poly_nonnegative(to_poly(e))


def _poly_nonnegative(p: Poly) -> bool:
    return all(c > 0 and all(_atom_nonnegative(a) for a in m) for m, c in p.items())


def _atom_nonnegative(atom: Expr) -> bool:
    if isinstance(atom, Var):
        return not isinstance(atom, ScalarVar)
    if isinstance(atom, Select):
        return is_nonnegative(atom.then) and is_nonnegative(atom.otherwise)
    if isinstance(atom, Binary):
        if atom.op in DIVISIONS and not is_positive_divisor(to_poly(atom.b)):
            return False
        if atom.op is BinOp.MOD:
            return True
        if atom.op in (BinOp.MAX, BinOp.BIT_AND):
            return is_nonnegative(atom.a) or is_nonnegative(atom.b)
        if atom.op.is_shift:
            return is_nonnegative(atom.a)
        return is_nonnegative(atom.a) and is_nonnegative(atom.b)
    return False


def bounds(e: Expr, ranges: Mapping[str, Expr]) -> Interval:
    """Inclusive bounds of `e` when each variable of `ranges` runs over `[0, extent)`; other variables stay.

    Raises NotAffine when a sign is unknown. Correlated quotients and remainders are bounded independently.
    """
    lo, hi = _bounds(to_poly(e), ranges, frozenset(ranges))
    return Interval(from_poly(lo), from_poly(hi))


def _bounds(p: Poly, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    base, inner = split_inner(p, names)
    lo, hi = dict(base), dict(base)
    for product, coefficient_ in inner.items():
        low, high = _product_bounds(product, ranges, names)
        if _poly_nonnegative(coefficient_):
            lo, hi = add(lo, multiply(coefficient_, low)), add(hi, multiply(coefficient_, high))
        elif _poly_nonnegative({m: -c for m, c in coefficient_.items()}):
            lo, hi = add(lo, multiply(coefficient_, high)), add(hi, multiply(coefficient_, low))
        else:
            raise NotAffine("the sign of a coefficient depends on tile sizes")
    return lo, hi


def _product_bounds(product: Monomial, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    lo, hi = _atom_bounds(product[0], ranges, names)
    for atom in product[1:]:
        low, high = _atom_bounds(atom, ranges, names)
        if not (_poly_nonnegative(lo) and _poly_nonnegative(low)):
            raise NotAffine("product of variables of unknown sign")
        lo, hi = multiply(lo, low), multiply(hi, high)
    return lo, hi


def _atom_bounds(atom: Expr, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    if isinstance(atom, Var):
        return {}, subtract(to_poly(ranges[atom.name]), {(): 1})
    if isinstance(atom, Select):
        (l1, h1), (l2, h2) = (_bounds(to_poly(x), ranges, names) for x in (atom.then, atom.otherwise))
        return POLY_OPERATIONS[BinOp.MIN](l1, l2), POLY_OPERATIONS[BinOp.MAX](h1, h2)
    if not isinstance(atom, Binary):
        raise NotAffine(f"{type(atom).__name__} in an index")
    if atom.op.is_of_bits or atom.op.is_shift:
        raise NotAffine("bits of an index")
    a, b = to_poly(atom.a), to_poly(atom.b)
    if atom.op in (BinOp.MIN, BinOp.MAX):
        (l1, h1), (l2, h2) = _bounds(a, ranges, names), _bounds(b, ranges, names)
        return POLY_OPERATIONS[atom.op](l1, l2), POLY_OPERATIONS[atom.op](h1, h2)
    if touches(atom.b, names):
        raise NotAffine("a loop variable as divisor")
    if not is_positive_divisor(b):
        raise NotAffine("a divisor that is not positive")
    if atom.op is BinOp.MOD:
        return _mod_bounds(a, b, ranges, names)
    low, high = _bounds(a, ranges, names)
    return POLY_OPERATIONS[atom.op](low, b), POLY_OPERATIONS[atom.op](high, b)


def _mod_bounds(a: Poly, b: Poly, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    last = subtract(b, {(): 1})
    low, high = _bounds(a, ranges, names)
    if low or not _poly_nonnegative(add(high, {(): 1})):
        return {}, last
    return {}, POLY_OPERATIONS[BinOp.MIN](high, last)


def region(e: Expr, ranges: Mapping[str, Expr]) -> tuple[Expr, Expr]:
    """`(lo, extent)` such that `e` stays in `[lo, lo + extent)` while the variables of `ranges` run.

    The extent never depends on the loops outside: where a quotient mixes loops inside and outside, it is the
    largest over the latter. Raises NotAffine.
    """
    p = to_poly(e)
    names = frozenset(ranges)
    base, inner = split_inner(p, names)
    lo: Poly = dict(base)
    span: Poly = {}
    for product, coefficient_ in inner.items():
        low, width = _product_span(product, ranges, names)
        negated = {m: -c for m, c in coefficient_.items()}
        if _poly_nonnegative(coefficient_):
            lo, span = add(lo, multiply(coefficient_, low)), add(span, multiply(coefficient_, width))
        elif _poly_nonnegative(negated):
            lo, span = add(lo, multiply(coefficient_, add(low, width))), add(span, multiply(negated, width))
        else:
            raise NotAffine("the sign of a coefficient depends on tile sizes")
    return from_poly(lo), from_poly(add(span, {(): 1}))


def _product_span(product: Monomial, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    """Lowest value, and highest minus lowest free of outer loops."""
    atom = product[0]
    if len(product) == 1 and isinstance(atom, Binary) and atom.op in (BinOp.FLOORDIV, BinOp.CEILDIV):
        lo, extent = region(atom.a, ranges)
        divisor = to_poly(atom.b)
        if touches(atom.b, names):
            raise NotAffine("a loop variable as divisor")
        if not is_positive_divisor(divisor):
            raise NotAffine("a divisor that is not positive")
        width = subtract(to_poly(extent), {(): 1})
        exact = not free_vars(lo)
        low = POLY_OPERATIONS[atom.op](to_poly(lo), divisor)
        if exact:
            return low, subtract(POLY_OPERATIONS[atom.op](add(to_poly(lo), width), divisor), low)
        return low, POLY_OPERATIONS[BinOp.CEILDIV](width, divisor)
    if len(product) == 1 and isinstance(atom, Binary) and atom.op is BinOp.MOD:
        low, high = _mod_bounds(to_poly(atom.a), to_poly(atom.b), ranges, names)
        return low, subtract(high, low)
    low, high = _product_bounds(product, ranges, names)
    return low, subtract(high, low)


def prove(cond: Expr, ranges: Mapping[str, Expr]) -> bool | None:
    """Whether `cond` holds for all (True) or no (False) values of the loops in `ranges`; None when unknown."""
    if isinstance(cond, Const):
        return bool(cond.value)
    if isinstance(cond, Binary) and cond.op.is_logical:
        sides = (prove(cond.a, ranges), prove(cond.b, ranges))
        decisive = cond.op is BinOp.OR
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    if not (isinstance(cond, Binary) and cond.op.is_comparison and cond.a.dtype is INDEX) or depends_on_data(cond):
        return None
    try:
        interval = bounds(Binary(BinOp.SUB, cond.a, cond.b), ranges)
    except NotAffine:
        return None
    return _decide(cond.op, interval)


def _decide(op: BinOp, difference: Interval) -> bool | None:
    """Whether `a op b` holds, given the interval of `a - b`; None if that does not decide it."""

    def at_least(bound: int) -> bool:
        return is_nonnegative(Binary(BinOp.SUB, difference.lo, const(bound)))

    def at_most(bound: int) -> bool:
        return is_nonnegative(Binary(BinOp.SUB, const(bound), difference.hi))

    if op is BinOp.LT:
        return True if at_most(-1) else (False if at_least(0) else None)
    if op is BinOp.LE:
        return True if at_most(0) else (False if at_least(1) else None)
    if op is BinOp.GT:
        return True if at_least(1) else (False if at_most(0) else None)
    if op is BinOp.GE:
        return True if at_least(0) else (False if at_most(-1) else None)
    apart = at_least(1) or at_most(-1)
    equal = at_least(0) and at_most(0)
    if op is BinOp.EQ:
        return True if equal else (False if apart else None)
    return True if apart else (False if equal else None)
