"""Polynomials with integer coefficients over expressions that are taken as they are.

They are the normal form of index arithmetic (`metasched.ir.integers.affine`). None is ever changed: they are shared.
"""

from __future__ import annotations

from functools import lru_cache

from metasched.ir.nodes import Expr, Var

# A product of atoms, in their order; of none of them it is 1.
Monomial = tuple[Expr, ...]
# Coefficients of monomials, none of them zero.
Poly = dict[Monomial, int]


@lru_cache(maxsize=1 << 14)
def order_of(atom: Expr) -> tuple[int, str]:
    """Where an atom comes in a product: variables first, by name."""
    return (0, atom.name) if isinstance(atom, Var) else (1, repr(atom))


def add(a: Poly, b: Poly) -> Poly:
    """The sum."""
    out = dict(a)
    for m, c in b.items():
        total = out.get(m, 0) + c
        if total:
            out[m] = total
        else:
            del out[m]
    return out


def subtract(a: Poly, b: Poly) -> Poly:
    """The difference."""
    return add(a, {m: -c for m, c in b.items()})


def replace_atom(p: Poly, atom: Expr, value: Poly) -> Poly:
    """`p`, each term of which contains `atom`, with one factor `atom` of each term replaced by `value`."""
    out: Poly = {}
    for m, c in p.items():
        rest = divide_monomial(m, (atom,))
        assert rest is not None
        out = add(out, multiply({rest: c}, value))
    return out


def multiply(a: Poly, b: Poly) -> Poly:
    """The product."""
    out: Poly = {}
    for m1, c1 in a.items():
        for m2, c2 in b.items():
            m = tuple(sorted(m1 + m2, key=order_of)) if m1 and m2 else m1 + m2
            out[m] = out.get(m, 0) + c1 * c2
    return {m: c for m, c in out.items() if c}


def constant_value(p: Poly) -> int | None:
    """The value of a polynomial without atoms; None for others."""
    if not p:
        return 0
    return p[()] if len(p) == 1 and () in p else None


def divide_out(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """`a = quotient * b + rest` for a single-term `b`, taking what divides exactly."""
    if len(b) != 1:
        return {}, a
    (monomial, coefficient), *_ = b.items()
    quotient: Poly = {}
    rest: Poly = {}
    for m, c in a.items():
        reduced = divide_monomial(m, monomial)
        if reduced is not None and c % coefficient == 0:
            quotient[reduced] = c // coefficient
        elif reduced is not None and not monomial and m == ():
            # A constant over a constant: take the whole multiples, so that the rest lies in [0, b).
            if c // coefficient:
                quotient[()] = c // coefficient
            rest[()] = c % coefficient
        else:
            rest[m] = c
    return quotient, rest


def divide_monomial(m: Monomial, factor: Monomial) -> Monomial | None:
    """The monomial divided by another; None if it is not divisible by it."""
    left = list(m)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def is_positive_divisor(b: Poly) -> bool:
    """Whether a divisor is not known to be zero or negative; divisions by such are not simplified."""
    value = constant_value(b)
    return value is None or value > 0


def constant_poly(value: int) -> Poly:
    """A number as a polynomial."""
    return {(): value} if value else {}
