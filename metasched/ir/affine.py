"""Integer index arithmetic: a normal form, and what it decides.

An integer expression is a polynomial over *atoms*: variables, and quotients, remainders, minima and maxima taken
as opaque. Loop variables range over `[0, extent)`; every other variable is a free tile variable, at least 1. So
every variable is non-negative, and a polynomial whose coefficients are all non-negative is non-negative.

All of this is about mathematical integers, which machine code computes as long as no value leaves 64 bits: what has the
numbers of a program sees to that (`metasched.lang.values`, `metasched.compiler.lower.widths`). Data (what is read from
a buffer, a scalar argument) may be any number, and sums and products of it wrap. So a sum over data is only regrouped,
which keeps its value modulo 2**64; a quotient, remainder, minimum, maximum or comparison over data is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from metasched.dtypes import INDEX, DType
from metasched.errors import MetaschedError
from metasched.ir.data import depends_on_data
from metasched.ir.nodes import (
    FALSE,
    TRUE,
    Binary,
    BinOp,
    Const,
    Expr,
    ScalarVar,
    Select,
    Unary,
    UnOp,
    Var,
)
from metasched.ir.polynomial import (
    Monomial,
    Poly,
    add,
    constant_poly,
    constant_value,
    divide_out,
    is_positive_divisor,
    multiply,
    order_of,
    replace_atom,
    subtract,
    without_factors,
)

ZERO = Const(0)
ONE = Const(1)
_WRAPS = 2**63


class NotAffine(MetaschedError):
    """The expression is outside what interval reasoning here can bound."""


@dataclass(frozen=True)
class Interval:
    """Inclusive bounds."""

    lo: Expr
    hi: Expr


def const(value: int) -> Const:
    return Const(value, INDEX)


def as_int(e: Expr) -> int | None:
    """The value of a constant integer expression, else None."""
    e = simplify(e)
    return int(e.value) if isinstance(e, Const) and e.type.is_integer else None


def free_vars(e: Expr) -> frozenset[str]:
    """Names of all variables in `e`."""
    return _free_vars(e)


@lru_cache(maxsize=1 << 16)
def _free_vars(e: Expr) -> frozenset[str]:
    if isinstance(e, Var):
        return frozenset((e.name,))
    out: frozenset[str] = frozenset()
    for child in e.children():
        assert isinstance(child, Expr)
        out |= _free_vars(child)
    return out


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """`e` with variables replaced, not simplified."""
    if isinstance(e, Var):
        return values.get(e.name, e)
    return e.map(lambda child: substitute(child, values))


# --- normal form -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 15)
def simplify(e: Expr) -> Expr:
    """The normal form: equal integer polynomials become equal expressions; other types keep their shape.

    Only value-preserving rewrites on mathematical integers, and on data modulo 2**64: `simplify(e)` evaluates as `e`
    does.
    """
    if e.dtype is INDEX:
        return _from_poly(_to_poly(e))
    if isinstance(e, Binary) and e.op.is_comparison and e.a.dtype is INDEX:
        return _simplify_comparison(e.op, e.a, e.b)
    if isinstance(e, Binary) and e.op.is_logical:
        return _simplify_logical(e.op, simplify(e.a), simplify(e.b))
    if isinstance(e, Unary) and e.op is UnOp.NOT:
        inner = simplify(e.a)
        return Const(not inner.value, DType.BOOL) if isinstance(inner, Const) else Unary(UnOp.NOT, inner)
    if isinstance(e, Select):
        return _simplify_select(e)
    return e.map(simplify)


def _simplify_comparison(op: BinOp, a: Expr, b: Expr) -> Expr:
    a, b = simplify(a), simplify(b)
    difference = subtract(_to_poly(a), _to_poly(b))
    if not difference or (set(difference) == {()} and not _any_data(a, b)):
        return TRUE if COMPARE[op](difference.get((), 0)) else FALSE
    return Binary(op, a, b)


COMPARE: Mapping[BinOp, Callable[[int], bool]] = {
    BinOp.LT: lambda d: d < 0,
    BinOp.LE: lambda d: d <= 0,
    BinOp.GT: lambda d: d > 0,
    BinOp.GE: lambda d: d >= 0,
    BinOp.EQ: lambda d: d == 0,
    BinOp.NE: lambda d: d != 0,
}


def _any_data(*operands: Expr) -> bool:
    return any(depends_on_data(e) for e in operands)


def _simplify_logical(op: BinOp, a: Expr, b: Expr) -> Expr:
    absorbing, neutral = (FALSE, TRUE) if op is BinOp.AND else (TRUE, FALSE)
    if absorbing in (a, b):
        return absorbing
    if a == neutral or a == b:
        return b
    return a if b == neutral else Binary(op, a, b)


def _simplify_select(e: Select) -> Expr:
    cond = simplify(e.cond)
    if isinstance(cond, Const):
        return simplify(e.then if cond.value else e.otherwise)
    then, otherwise = simplify(e.then), simplify(e.otherwise)
    return then if then == otherwise else Select(cond, then, otherwise)


@lru_cache(maxsize=1 << 14)
def _to_poly(e: Expr) -> Poly:
    """The polynomial of an expression. It is shared: nothing changes it."""
    if isinstance(e, Const):
        return {(): int(e.value)} if e.value else {}
    if isinstance(e, Unary) and e.op is UnOp.NEG:
        return {m: -c for m, c in _to_poly(e.a).items()}
    if isinstance(e, Binary) and e.op in _POLY:
        a, b = _to_poly(e.a), _to_poly(e.b)
        if e.op in _RING or not _any_data(e.a, e.b):
            return _POLY[e.op](a, b)
        return _opaque(e.op, a, b)
    if isinstance(e, Select):
        chosen = _simplify_select(e)
        return {(chosen,): 1} if isinstance(chosen, Select) else _to_poly(chosen)
    return {(e.map(simplify),): 1}


def _sum(a: Poly, b: Poly) -> Poly:
    return _whole(add(a, b))


def _difference(a: Poly, b: Poly) -> Poly:
    return _whole(subtract(a, b))


def _whole(p: Poly) -> Poly:
    """With each `(x // d)*d + x % d` in it, times anything, as `x`."""
    for monomial, coefficient_ in p.items():
        for atom in monomial:
            if isinstance(atom, Binary) and atom.op is BinOp.MOD:
                quotient = multiply({monomial: coefficient_}, _to_poly(atom.b))
                quotient = replace_atom(quotient, atom, {(Binary(BinOp.FLOORDIV, atom.a, atom.b),): 1})
                if all(p.get(m) == c for m, c in quotient.items()):
                    parts = add({monomial: coefficient_}, quotient)
                    value = replace_atom({monomial: coefficient_}, atom, _to_poly(atom.a))
                    return _whole(add(subtract(p, parts), value))
    return p


def _opaque(op: BinOp, a: Poly, b: Poly) -> Poly:
    return {(Binary(op, _from_poly(a), _from_poly(b)),): 1}


def _floordiv(a: Poly, b: Poly) -> Poly:
    if not is_positive_divisor(b):
        return _opaque(BinOp.FLOORDIV, a, b)
    if constant_value(b) == 1:
        return a
    quotient, rest = divide_out(a, b)
    r, d = constant_value(rest), constant_value(b)
    if r is not None and d is not None:
        return add(quotient, constant_poly(r // d))
    if not rest or (r is not None and r == 0):
        return quotient
    return add(quotient, {(Binary(BinOp.FLOORDIV, _from_poly(rest), _from_poly(b)),): 1})


def _mod(a: Poly, b: Poly) -> Poly:
    if not is_positive_divisor(b):
        return _opaque(BinOp.MOD, a, b)
    if constant_value(b) == 1:
        return {}
    _, rest = divide_out(a, b)
    r, d = constant_value(rest), constant_value(b)
    if r is not None and d is not None:
        return constant_poly(r % d)
    if not rest:
        return {}
    return {(Binary(BinOp.MOD, _from_poly(rest), _from_poly(b)),): 1}


def _ceildiv(a: Poly, b: Poly) -> Poly:
    if not is_positive_divisor(b):
        return _opaque(BinOp.CEILDIV, a, b)
    if constant_value(b) == 1:
        return a
    quotient, rest = divide_out(a, b)
    r, d = constant_value(rest), constant_value(b)
    if r is not None and d is not None:
        return add(quotient, constant_poly(-(-r // d)))
    if not rest:
        return quotient
    return add(quotient, {(Binary(BinOp.CEILDIV, _from_poly(rest), _from_poly(b)),): 1})


def _extremum(op: BinOp) -> Callable[[Poly, Poly], Poly]:
    def combine(a: Poly, b: Poly) -> Poly:
        difference = constant_value(subtract(a, b))
        if difference is not None:
            return a if (difference <= 0) == (op is BinOp.MIN) else b
        first, second = sorted((_from_poly(a), _from_poly(b)), key=repr)
        return {(Binary(op, first, second),): 1}

    return combine


_POLY: Mapping[BinOp, Callable[[Poly, Poly], Poly]] = {
    BinOp.ADD: _sum,
    BinOp.SUB: _difference,
    BinOp.MUL: multiply,
    BinOp.FLOORDIV: _floordiv,
    BinOp.MOD: _mod,
    BinOp.CEILDIV: _ceildiv,
    BinOp.MIN: _extremum(BinOp.MIN),
    BinOp.MAX: _extremum(BinOp.MAX),
}
# Those that mean the same modulo 2**64.
_RING = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL})
_DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV})


def _from_poly(p: Poly) -> Expr:
    if any(abs(c) >= _WRAPS for c in p.values()) and any(depends_on_data(atom) for m in p for atom in m):
        p = {m: w for m, c in p.items() if (w := (c + _WRAPS) % (2 * _WRAPS) - _WRAPS)}
    if not p:
        return ZERO
    ordered = sorted(p.items(), key=lambda item: (not item[0], item[1] < 0, [order_of(a) for a in item[0]]))
    out: Expr | None = None
    for monomial, coefficient in ordered:
        if out is None:
            out = _term(monomial, coefficient)
        elif -_WRAPS < coefficient < 0:  # -2**63 has no magnitude in 64 bits
            out = Binary(BinOp.SUB, out, _term(monomial, -coefficient))
        else:
            out = Binary(BinOp.ADD, out, _term(monomial, coefficient))
    assert out is not None
    return out


def _term(monomial: Monomial, coefficient: int) -> Expr:
    out: Expr | None = None
    for atom in monomial:
        out = atom if out is None else Binary(BinOp.MUL, out, atom)
    if out is None:
        return const(coefficient)
    return out if coefficient == 1 else Binary(BinOp.MUL, out, const(coefficient))


def coefficient(e: Expr, var: str) -> Expr:
    """The coefficient of `var` in `e`. Raises NotAffine when `e` is not linear in it."""
    out: Poly = {}
    target = Var(var)
    for m, c in _to_poly(e).items():
        rest = without_factors(m, (target,))
        left = m if rest is None else rest
        if any(var in _free_vars(atom) for atom in left):
            raise NotAffine(f"not linear in {var}")
        if rest is not None:
            out = add(out, {rest: c})
    return _from_poly(out)


# --- bounds ----------------------------------------------------------------------------------------------


def nonnegative(e: Expr) -> bool:
    """Whether `e >= 0` follows from every variable being non-negative."""
    return _poly_nonnegative(_to_poly(e))


def _poly_nonnegative(p: Poly) -> bool:
    return all(c > 0 and all(_atom_nonnegative(a) for a in m) for m, c in p.items())


def _atom_nonnegative(atom: Expr) -> bool:
    if isinstance(atom, Var):
        return not isinstance(atom, ScalarVar)
    if isinstance(atom, Select):
        return nonnegative(atom.then) and nonnegative(atom.otherwise)
    if isinstance(atom, Binary):
        if atom.op in _DIVISIONS and not is_positive_divisor(_to_poly(atom.b)):
            return False
        if atom.op is BinOp.MOD:
            return True
        if atom.op is BinOp.MAX:
            return nonnegative(atom.a) or nonnegative(atom.b)
        return nonnegative(atom.a) and nonnegative(atom.b)
    return False


def _touches(atom: Expr, names: frozenset[str]) -> bool:
    return not names.isdisjoint(_free_vars(atom))


def _split_inner(p: Poly, names: frozenset[str]) -> tuple[Poly, dict[Monomial, Poly]]:
    """`p` as a part free of `names`, and for each product of atoms with them its coefficient."""
    base: Poly = {}
    inner: dict[Monomial, Poly] = {}
    for m, c in p.items():
        inside = tuple(a for a in m if _touches(a, names))
        outside = tuple(a for a in m if not _touches(a, names))
        if inside:
            inner[inside] = add(inner.get(inside, {}), {outside: c})
        else:
            base[m] = c
    return base, inner


def terms_over(e: Expr, names: frozenset[str]) -> tuple[Expr, dict[Monomial, Expr]]:
    """`e` as a part free of `names`, and the coefficient of each product of atoms that touch them."""
    base, inner = _split_inner(_to_poly(e), names)
    return _from_poly(base), {product: _from_poly(p) for product, p in inner.items()}


def linear(e: Expr, names: frozenset[str]) -> tuple[Expr, dict[Expr, Expr]]:
    """`e` as a part free of `names`, and the coefficient of each variable, quotient or remainder that touches them.

    Raises NotAffine when two such are multiplied.
    """
    base, terms = terms_over(e, names)
    if any(len(product) != 1 for product in terms):
        raise NotAffine("a product of loop variables")
    return base, {product[0]: coefficient_ for product, coefficient_ in terms.items()}


def bounds(e: Expr, ranges: Mapping[str, Expr]) -> Interval:
    """Inclusive bounds of `e` when each variable of `ranges` runs over `[0, extent)`; other variables stay.

    Raises NotAffine when a sign is unknown. Correlated quotients and remainders are bounded apart.
    """
    lo, hi = _bounds(_to_poly(e), ranges, frozenset(ranges))
    return Interval(_from_poly(lo), _from_poly(hi))


def _bounds(p: Poly, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    base, inner = _split_inner(p, names)
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
        return {}, subtract(_to_poly(ranges[atom.name]), {(): 1})
    if isinstance(atom, Select):
        (l1, h1), (l2, h2) = (_bounds(_to_poly(x), ranges, names) for x in (atom.then, atom.otherwise))
        return _POLY[BinOp.MIN](l1, l2), _POLY[BinOp.MAX](h1, h2)
    if not isinstance(atom, Binary):
        raise NotAffine(f"{type(atom).__name__} in an index")
    a, b = _to_poly(atom.a), _to_poly(atom.b)
    if atom.op in (BinOp.MIN, BinOp.MAX):
        (l1, h1), (l2, h2) = _bounds(a, ranges, names), _bounds(b, ranges, names)
        return _POLY[atom.op](l1, l2), _POLY[atom.op](h1, h2)
    if _touches(atom.b, names):
        raise NotAffine("a loop variable as divisor")
    if not is_positive_divisor(b):
        raise NotAffine("a divisor that is not positive")
    if atom.op is BinOp.MOD:
        return _mod_bounds(a, b, ranges, names)
    low, high = _bounds(a, ranges, names)
    return _POLY[atom.op](low, b), _POLY[atom.op](high, b)


def _mod_bounds(a: Poly, b: Poly, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    last = subtract(b, {(): 1})
    low, high = _bounds(a, ranges, names)
    if low or not _poly_nonnegative(add(high, {(): 1})):
        return {}, last
    return {}, _POLY[BinOp.MIN](high, last)


def region(e: Expr, ranges: Mapping[str, Expr]) -> tuple[Expr, Expr]:
    """`(lo, extent)` such that `e` stays in `[lo, lo + extent)` while the variables of `ranges` run.

    The extent never depends on the loops outside: where a quotient mixes loops inside and outside, it is the
    largest over the latter. Raises NotAffine.
    """
    p = _to_poly(e)
    names = frozenset(ranges)
    base, inner = _split_inner(p, names)
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
    return _from_poly(lo), _from_poly(add(span, {(): 1}))


def _product_span(product: Monomial, ranges: Mapping[str, Expr], names: frozenset[str]) -> tuple[Poly, Poly]:
    """Lowest value, and highest minus lowest free of outer loops."""
    atom = product[0]
    if len(product) == 1 and isinstance(atom, Binary) and atom.op in (BinOp.FLOORDIV, BinOp.CEILDIV):
        lo, extent = region(atom.a, ranges)
        divisor = _to_poly(atom.b)
        if _touches(atom.b, names):
            raise NotAffine("a loop variable as divisor")
        if not is_positive_divisor(divisor):
            raise NotAffine("a divisor that is not positive")
        width = subtract(_to_poly(extent), {(): 1})
        exact = not free_vars(lo)
        low = _POLY[atom.op](_to_poly(lo), divisor)
        if exact:
            return low, subtract(_POLY[atom.op](add(_to_poly(lo), width), divisor), low)
        return low, _ceildiv(width, divisor)
    if len(product) == 1 and isinstance(atom, Binary) and atom.op is BinOp.MOD:
        low, high = _mod_bounds(_to_poly(atom.a), _to_poly(atom.b), ranges, names)
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
    """What `a - b` in an interval says of `a op b`."""

    def at_least(bound: int) -> bool:
        return nonnegative(Binary(BinOp.SUB, difference.lo, const(bound)))

    def at_most(bound: int) -> bool:
        return nonnegative(Binary(BinOp.SUB, const(bound), difference.hi))

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
