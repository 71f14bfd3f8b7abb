"""Index maps, such as `i, j -> j//16, i, j%16`: their images and their inverses.

An index map is supported if every output is a *number of digits*, `i*56 + j` or `j % 16`: its terms have constant
coefficients, each a multiple of the one before and more than all that the lower digits add up to. So digits can be
taken out of outputs again, and `j//16` and `j%16` make `j`. Divisors may be expressions over free tile variables, which
are at least 1: what holds of such a map holds of it at every row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from metasched.ir.integers.affine import (
    ONE,
    ZERO,
    NotAffine,
    as_int,
    const,
    free_vars,
    from_poly,
    linear,
    simplify,
    substitute,
    to_poly,
)
from metasched.ir.integers.linear import Linear, to_expr
from metasched.ir.integers.ranges import bounds, is_nonnegative
from metasched.ir.nodes import Binary, BinOp, Expr, IndexMap, Var

Ranges = Mapping[str, Expr]

_QUOTIENTS = (BinOp.FLOORDIV, BinOp.MOD)


def image(index_map: IndexMap, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The image of `indices` under the map."""
    values = dict(zip(index_map.names, indices, strict=True))
    return tuple(simplify(substitute(e, values)) for e in index_map.outputs)


def image_shape(index_map: IndexMap, shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The extents of the space that a box of `shape` is mapped into. Raises NotAffine when an index may be negative.

    A remainder whose dividend has an unknown extent is assumed to take all its values.
    """
    ranges = dict(zip(index_map.names, shape, strict=True))
    return tuple(_extent(resolve(e, ranges), ranges) for e in index_map.outputs)


def _extent(e: Expr, ranges: Ranges) -> Expr:
    found = bounds(e, ranges)
    if not is_nonnegative(found.lo):
        raise NotAffine("an index may be negative")
    if isinstance(e, Binary) and e.op in _QUOTIENTS and free_vars(e.b):
        whole = bounds(e.a, ranges).hi + 1
        return simplify(Binary(BinOp.MIN if e.op is BinOp.MOD else BinOp.CEILDIV, whole, e.b))
    if isinstance(e, Binary) and e.op is BinOp.MOD and as_int(found.hi) is None:
        return e.b
    return simplify(found.hi + 1)


# --- quotients and remainders under ranges ---------------------------------------------------------------


def resolve(e: Expr, ranges: Ranges) -> Expr:
    """`e` in normal form, with the quotients and remainders that the ranges decide folded, and `x//a*a + x%a` as
    `x`. It has the value of `e` wherever the variables are in their ranges."""
    e = simplify(substitute(e, {name: ZERO for name, extent in ranges.items() if simplify(extent) == ONE}))
    return _join_digits(simplify(_resolve_quotients(e, ranges)))


def _resolve_quotients(e: Expr, ranges: Ranges) -> Expr:
    if not free_vars(e) or not isinstance(e, Binary):
        return e
    inner = e.map(lambda child: _resolve_quotients(child, ranges))
    assert isinstance(inner, Binary)
    if inner.op not in _QUOTIENTS:
        return inner
    if free_vars(inner.b):
        if free_vars(inner.b) & ranges.keys():
            return inner
        coarse = _coarsen_free_quotient(inner, ranges)
        return _drop_free_quotients(simplify(inner), inner.b, ranges) if coarse is None else coarse
    return _quotient(inner.op, _join_digits(simplify(inner.a)), inner.b, ranges)


def _drop_free_quotients(e: Expr, b: Expr, ranges: Ranges) -> Expr:
    """`e` with `x // b` as zero and `x % b` as `x`, for a divisor over free variables, where `x` is less than it."""
    if isinstance(e, Binary) and e.op in _QUOTIENTS and e.b == b and _is_below(e.a, b, ranges):
        return ZERO if e.op is BinOp.FLOORDIV else e.a
    return e.map(lambda child: _drop_free_quotients(child, b, ranges)) if isinstance(e, Binary) else e


def _coarsen_free_quotient(e: Binary, ranges: Ranges) -> Expr | None:
    """`(g*x + r) // (g*t)` as `x // t` and `(g*x + r) % (g*t)` as `g*(x % t) + r`, for a free size `t`, a number `g`
    and `r` in `[0, g)`; None where it is no such quotient or remainder."""
    dividend, divisor = to_poly(e.a), to_poly(e.b)
    g = math.gcd(*divisor.values())
    rest = from_poly({term: c for term, c in dividend.items() if c % g})
    if g == 1 or _decide_quotient(BinOp.FLOORDIV, rest, const(g), ranges) != ZERO:
        return None
    upper, size = (from_poly({term: c // g for term, c in p.items() if c % g == 0}) for p in (dividend, divisor))
    part = _drop_free_quotients(simplify(Binary(e.op, upper, size)), size, ranges)
    return part if e.op is BinOp.FLOORDIV else simplify(part * g + rest)


def _is_below(a: Expr, b: Expr, ranges: Ranges) -> bool:
    """Whether `0 <= a < b`. An extent `min(b, n)` is at most either."""
    most = {
        name: extent.b if isinstance(extent, Binary) and extent.op is BinOp.MIN and extent.b == b else extent
        for name, extent in ranges.items()
    }
    most = {
        name: extent.a if isinstance(extent, Binary) and extent.op is BinOp.MIN and extent.a == b else extent
        for name, extent in most.items()
    }
    try:
        found = bounds(a, most)
    except NotAffine:
        return False
    return is_nonnegative(found.lo) and is_nonnegative(simplify(b - 1 - found.hi))


def _quotient(op: BinOp, a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """`a // b` or `a % b` for a constant `b`."""
    whole = Binary(op, a, b)
    if op is BinOp.FLOORDIV and isinstance(a, Binary) and a.op is BinOp.FLOORDIV and as_int(a.b) is not None:
        return _quotient(op, a.a, simplify(a.b * b), ranges)
    if op is BinOp.FLOORDIV and isinstance(a, Binary) and a.op is BinOp.MOD and simplify(a.b % b) == ZERO:
        part = _quotient(op, a.a, b, ranges)
        return _quotient(BinOp.MOD, part, simplify(a.b // b), ranges)
    if op is BinOp.MOD and isinstance(a, Binary) and a.op is BinOp.MOD and simplify(a.b % b) == ZERO:
        return _quotient(op, a.a, b, ranges)
    taken = simplify(whole)
    if not (isinstance(taken, Binary) and taken.op is op):
        return taken if taken == whole else _resolve_terms(taken, ranges)
    a, b = taken.a, taken.b
    inside = _decide_quotient(op, a, b, ranges)
    if inside is not None:
        return inside
    coarse = _coarsen_quotient(op, a, b, ranges)
    return taken if coarse is None else coarse


def _resolve_terms(e: Expr, ranges: Ranges) -> Expr:
    """A sum from which simplification took out whole multiples; the ranges may decide what is left."""
    if isinstance(e, Binary) and e.op in _QUOTIENTS:
        return _quotient(e.op, e.a, e.b, ranges)
    return e.map(lambda child: _resolve_terms(child, ranges)) if isinstance(e, Binary) else e


def _decide_quotient(op: BinOp, a: Expr, b: Expr, ranges: Ranges) -> Expr | None:
    """The quotient or remainder where all values of `a` have the same quotient."""
    if not free_vars(a) <= ranges.keys():
        return None
    try:
        found = bounds(a, ranges)
    except NotAffine:
        return None
    low, high = (simplify(Binary(BinOp.FLOORDIV, x, b)) for x in (found.lo, found.hi))
    if low != high or free_vars(low):
        return None
    return low if op is BinOp.FLOORDIV else simplify(a - low * b)


def _coarsen_quotient(op: BinOp, a: Expr, b: Expr, ranges: Ranges) -> Expr | None:
    """`(g*x + r) // (g*m)` is `x // m` and `(g*x + r) % (g*m)` is `g*(x % m) + r`, for `r` in `[0, g)`."""
    divisor = as_int(b)
    try:
        base, terms = linear(a, free_vars(a))
    except NotAffine:
        return None
    sizes = {atom: as_int(c) for atom, c in terms.items()}
    start = as_int(base)
    if divisor is None or start is None or any(c is None for c in sizes.values()):
        return None
    for g in sorted({abs(c) for c in sizes.values() if c}, reverse=True):
        if g == 1 or divisor % g or g == divisor:
            continue
        upper = to_expr(Linear(start // g, tuple((atom, c // g) for atom, c in sizes.items() if c and c % g == 0)))
        rest = simplify(to_expr(Linear(start % g, tuple((atom, c) for atom, c in sizes.items() if c and c % g))))
        if _decide_quotient(BinOp.FLOORDIV, rest, const(g), ranges) != ZERO:
            continue
        part = _quotient(op, simplify(upper), const(divisor // g), ranges)
        return part if op is BinOp.FLOORDIV else simplify(part * g + rest)
    return None


def _join_digits(e: Expr) -> Expr:
    """`e` with every `x//a * (a*c) + x%a * c` as `x*c`."""
    try:
        base, terms = linear(e, free_vars(e))
    except NotAffine:
        return e
    for atom, c in terms.items():
        if not (isinstance(atom, Binary) and atom.op is BinOp.MOD):
            continue
        quotient = simplify(_flat_quotient(atom.a, atom.b))
        if quotient in terms and terms[quotient] == simplify(c * atom.b):
            rest = base
            for other, factor in terms.items():
                if other not in (atom, quotient):
                    rest = rest + other * factor
            return _join_digits(simplify(rest + atom.a * c))
    return e


def _flat_quotient(a: Expr, b: Expr) -> Expr:
    """`a // b`, without a quotient in a quotient."""
    if isinstance(a, Binary) and a.op is BinOp.FLOORDIV:
        return Binary(BinOp.FLOORDIV, a.a, simplify(a.b * b))
    return Binary(BinOp.FLOORDIV, a, b)


# --- the way back ----------------------------------------------------------------------------------------


def inverse(index_map: IndexMap, shape: Sequence[Expr], outputs: Sequence[str]) -> dict[str, Expr]:
    """Each index by name in terms of the outputs, which are called `outputs`.

    Missing names could not be derived from the outputs: the map is not one to one, or not supported.
    """
    ranges = dict(zip(index_map.names, shape, strict=True))
    known: dict[Expr, Expr] = {Var(name): ZERO for name, extent in ranges.items() if simplify(extent) == ONE}
    for e, name in zip(index_map.outputs, outputs, strict=True):
        known.setdefault(resolve(e, ranges), Var(name))
    while True:
        made = (*_digits(known, ranges), *_dividends(known, ranges), *_split_quotients(known, ranges))
        found = [(k, v) for k, v in made if k not in known]
        if not found:
            return {name: simplify(known[Var(name)]) for name in index_map.names if Var(name) in known}
        known.update(dict(reversed(found)))


def _digits(known: Mapping[Expr, Expr], ranges: Ranges) -> Iterator[tuple[Expr, Expr]]:
    """The digits of every known number."""
    for number, value in known.items():
        try:
            base, terms = linear(number, free_vars(number))
            digits = sorted(((as_int(c) or 0, atom) for atom, c in terms.items()), key=lambda item: item[0])
            if not digits or not _is_radix(digits, ranges):
                continue
        except NotAffine:
            continue
        rest = simplify(value - base)
        for n, (c, atom) in enumerate(digits):
            digit: Expr = Binary(BinOp.FLOORDIV, rest, const(c))
            if n + 1 < len(digits):
                digit = Binary(BinOp.MOD, digit, const(digits[n + 1][0] // c))
            yield atom, simplify(digit)


def _is_radix(digits: Sequence[tuple[int, Expr]], ranges: Ranges) -> bool:
    """Whether each coefficient is a multiple of the one before and more than the digits below. Raises NotAffine."""
    below: Expr = ZERO
    for n, (c, atom) in enumerate(digits):
        if c <= 0 or (n and c % digits[n - 1][0]) or not is_nonnegative(simplify(const(c - 1) - below)):
            return False
        found = bounds(atom, ranges)
        if not is_nonnegative(found.lo):
            return False
        below = simplify(below + found.hi * c)
    return True


def _dividends(known: Mapping[Expr, Expr], ranges: Ranges) -> Iterator[tuple[Expr, Expr]]:
    """The dividends of known pairs of quotient and remainder."""
    for part, rest in known.items():
        if isinstance(part, Binary) and part.op is BinOp.MOD:
            quotient = known.get(resolve(_flat_quotient(part.a, part.b), ranges))
            if quotient is not None:
                yield part.a, simplify(quotient * part.b + rest)


def _split_quotients(known: Mapping[Expr, Expr], ranges: Ranges) -> Iterator[tuple[Expr, Expr]]:
    """Known quotients by the divisors of known remainders: `(9*x + y) // 6` is `(3*x + y // 3) // 2`."""
    quotients = [(e, v) for e, v in known.items() if isinstance(e, Binary) and e.op is BinOp.FLOORDIV]
    moduli = {as_int(e.b) for e in known if isinstance(e, Binary) and e.op is BinOp.MOD}
    for part, value in quotients:
        whole = as_int(part.b)
        for last in moduli if whole is not None else ():
            if last is not None and whole is not None and last < whole and whole % last == 0:
                first = resolve(Binary(BinOp.FLOORDIV, part.a, const(whole // last)), ranges)
                yield Binary(BinOp.FLOORDIV, first, const(last)), value
