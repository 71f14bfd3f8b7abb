"""Integer index arithmetic: its normal form.

An integer expression is a polynomial over *atoms*: variables, and quotients, remainders, minima and maxima taken
as opaque.

All of this is about mathematical integers, which machine code computes as long as no value leaves 64 bits: that is
checked where the sizes of a program are known (`metasched.lang.elaboration.values`,
`metasched.compiler.lower.widths`). Data (what is read from a buffer, a scalar argument) may be any number, and sums
and products of it wrap. So a sum over data is only regrouped, which keeps its value modulo 2**64; a quotient,
remainder, minimum, maximum or comparison over data is left alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from metasched.dtypes import INDEX, DType
from metasched.errors import MetaschedError
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.polynomial import (
    Monomial,
    Poly,
    add,
    constant_poly,
    constant_value,
    divide_monomial,
    divide_out,
    is_positive_divisor,
    multiply,
    order_of,
    replace_atom,
    subtract,
)
from metasched.ir.nodes import (
    FALSE,
    TRUE,
    Binary,
    BinOp,
    Const,
    Expr,
    Select,
    Unary,
    UnOp,
    Var,
)

ZERO = Const(0)
ONE = Const(1)
_WRAP_LIMIT = 2**63


class NotAffine(MetaschedError):
    """The expression is outside what interval reasoning can bound."""


def const(value: int) -> Const:
    return Const(value, INDEX)


def as_int(e: Expr) -> int | None:
    """The value of a constant integer expression, else None."""
    if not isinstance(e, Const):
        e = simplify(e)
    return int(e.value) if isinstance(e, Const) and e.type.is_integer else None


def free_vars(e: Expr) -> frozenset[str]:
    """Names of all variables in `e`."""
    return frozenset() if isinstance(e, Const) else _free_vars(e)


def free_vars_of(exprs: Iterable[Expr]) -> frozenset[str]:
    """Names of all variables in some expressions."""
    return frozenset[str]().union(*map(free_vars, exprs))


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
        return from_poly(to_poly(e))
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
    difference = subtract(to_poly(a), to_poly(b))
    if not difference or (set(difference) == {()} and not _reads_data(a, b)):
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


def _reads_data(*operands: Expr) -> bool:
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
def to_poly(e: Expr) -> Poly:
    """The polynomial of an expression. It is shared: nothing changes it."""
    if isinstance(e, Const):
        return {(): int(e.value)} if e.value else {}
    if isinstance(e, Unary) and e.op is UnOp.NEG:
        return {m: -c for m, c in to_poly(e.a).items()}
    if isinstance(e, Binary) and e.op in POLY_OPERATIONS:
        a, b = to_poly(e.a), to_poly(e.b)
        if e.op in _RING or not _reads_data(e.a, e.b):
            return POLY_OPERATIONS[e.op](a, b)
        return _opaque_atom(e.op, a, b)
    if isinstance(e, Select):
        chosen = _simplify_select(e)
        return {(chosen,): 1} if isinstance(chosen, Select) else to_poly(chosen)
    return {(e.map(simplify),): 1}


def _sum(a: Poly, b: Poly) -> Poly:
    return _join_digits(add(a, b))


def _difference(a: Poly, b: Poly) -> Poly:
    return _join_digits(subtract(a, b))


def _join_digits(p: Poly) -> Poly:
    """`p` with digits put together: `(x // d)*d + x % d` is `x`, and `(x // d % c)*d + x % d` is `x % (c*d)`. So are
    multiples of these."""
    remainders = [atom for monomial in p for atom in monomial if isinstance(atom, Binary) and atom.op is BinOp.MOD]
    if not remainders:
        return p
    for low, digit in _terms_of_digits(p):
        for high, both in _digits_above(digit, remainders):
            upper = replace_atom(multiply(low, to_poly(digit.b)), digit, high)
            if all(p.get(m) == c for m, c in upper.items()):
                return _join_digits(add(subtract(p, add(low, upper)), replace_atom(low, digit, both)))
    return p


def _terms_of_digits(p: Poly) -> Iterator[tuple[Poly, Binary]]:
    """Terms of `p` that are multiples of a digit `x % d`, each with the digit."""
    for monomial, factor in p.items():
        for atom in monomial:
            if isinstance(atom, Binary) and atom.op is BinOp.MOD:
                yield {monomial: factor}, atom


def _digits_above(low: Binary, remainders: Sequence[Binary]) -> Iterator[tuple[Poly, Poly]]:
    """What may stand above a digit `x % d`, and what they are together."""
    x, d = to_poly(low.a), to_poly(low.b)
    for quotient in _quotients_of(low):
        yield quotient, x
        for digit in remainders:
            c = to_poly(digit.b)
            size = multiply(c, d)
            are_sizes = is_positive_divisor(c) and is_positive_divisor(d)
            if to_poly(digit.a) == quotient and are_sizes and (constant_value(size) or 0) < _LARGEST_DIVISOR:
                yield {(digit,): 1}, _opaque_atom(BinOp.MOD, x, size) if _reads_data(low, digit) else _mod(x, size)


def _quotients_of(remainder: Binary) -> Iterator[Poly]:
    """`x // d` for `x % d`, in the forms that it may have.

    Where `x` is `s + y // c`, that is `(c*s + y) // (c*d)` as well: tiles of a digit of `y` leave the first form, and
    those of `y` itself the second.
    """
    x, d = remainder.a, to_poly(remainder.b)
    yield {(Binary(BinOp.FLOORDIV, x, remainder.b),): 1}
    whole, data = to_poly(x), depends_on_data(x)
    for monomial, coefficient_ in whole.items():
        atom = monomial[0] if len(monomial) == 1 and coefficient_ == 1 else None
        if isinstance(atom, Binary) and atom.op is BinOp.FLOORDIV and is_positive_divisor(c := to_poly(atom.b)):
            others = subtract(whole, {monomial: 1})
            if not data:
                yield _floordiv(add(multiply(others, c), to_poly(atom.a)), multiply(c, d))
            elif not others:
                yield _opaque_atom(BinOp.FLOORDIV, to_poly(atom.a), multiply(c, d))


def _opaque_atom(op: BinOp, a: Poly, b: Poly) -> Poly:
    return {(Binary(op, from_poly(a), from_poly(b)),): 1}


def _floordiv(a: Poly, b: Poly) -> Poly:
    if not is_positive_divisor(b):
        return _opaque_atom(BinOp.FLOORDIV, a, b)
    if constant_value(b) == 1:
        return a
    quotient, rest = divide_out(a, b)
    r, d = constant_value(rest), constant_value(b)
    if r is not None and d is not None:
        return add(quotient, constant_poly(r // d))
    if not rest or (r is not None and r == 0):
        return quotient
    return add(quotient, {(Binary(BinOp.FLOORDIV, from_poly(rest), from_poly(b)),): 1})


def _mod(a: Poly, b: Poly) -> Poly:
    if not is_positive_divisor(b):
        return _opaque_atom(BinOp.MOD, a, b)
    if constant_value(b) == 1:
        return {}
    _, rest = divide_out(a, b)
    r, d = constant_value(rest), constant_value(b)
    if r is not None and d is not None:
        return constant_poly(r % d)
    if not rest:
        return {}
    return {(Binary(BinOp.MOD, from_poly(rest), from_poly(b)),): 1}


def _ceildiv(a: Poly, b: Poly) -> Poly:
    if not is_positive_divisor(b):
        return _opaque_atom(BinOp.CEILDIV, a, b)
    if constant_value(b) == 1:
        return a
    quotient, rest = divide_out(a, b)
    r, d = constant_value(rest), constant_value(b)
    if r is not None and d is not None:
        return add(quotient, constant_poly(-(-r // d)))
    if not rest:
        return quotient
    return add(quotient, {(Binary(BinOp.CEILDIV, from_poly(rest), from_poly(b)),): 1})


def _extremum(op: BinOp) -> Callable[[Poly, Poly], Poly]:
    def combine(a: Poly, b: Poly) -> Poly:
        difference = constant_value(subtract(a, b))
        if difference is not None:
            return a if (difference <= 0) == (op is BinOp.MIN) else b
        first, second = sorted((from_poly(a), from_poly(b)), key=repr)
        return {(Binary(op, first, second),): 1}

    return combine


_BIT_OPERATIONS: Mapping[BinOp, Callable[[int, int], int]] = {
    BinOp.BIT_AND: operator.and_,
    BinOp.BIT_OR: operator.or_,
    BinOp.BIT_XOR: operator.xor,
}


def _bits(op: BinOp) -> Callable[[Poly, Poly], Poly]:
    def combine(a: Poly, b: Poly) -> Poly:
        x, y = constant_value(a), constant_value(b)
        if x is not None and y is not None:
            return constant_poly(_BIT_OPERATIONS[op](x, y))
        # The lowest places are what is left of a division.
        mask, of = (x, b) if y is None else (y, a)
        if op is BinOp.BIT_AND and mask is not None and 0 <= mask < _LARGEST_DIVISOR - 1 and mask & (mask + 1) == 0:
            return _mod(of, constant_poly(mask + 1))
        first, second = sorted((from_poly(a), from_poly(b)), key=repr)
        return {(Binary(op, first, second),): 1}

    return combine


def _shift(op: BinOp) -> Callable[[Poly, Poly], Poly]:
    def shifted(a: Poly, b: Poly) -> Poly:
        places = constant_value(b)
        if places is None or not 0 <= places < _SHIFT_LIMIT:
            return _opaque_atom(op, a, b)
        by = constant_poly(2**places)
        return multiply(a, by) if op is BinOp.SHIFT_LEFT else _floordiv(a, by)

    return shifted


# For each operation: the function from the polynomials of its operands to that of its result.
POLY_OPERATIONS: Mapping[BinOp, Callable[[Poly, Poly], Poly]] = {
    BinOp.ADD: _sum,
    BinOp.SUB: _difference,
    BinOp.MUL: multiply,
    BinOp.FLOORDIV: _floordiv,
    BinOp.MOD: _mod,
    BinOp.CEILDIV: _ceildiv,
    BinOp.MIN: _extremum(BinOp.MIN),
    BinOp.MAX: _extremum(BinOp.MAX),
    **{op: _bits(op) for op in _BIT_OPERATIONS},
    BinOp.SHIFT_LEFT: _shift(BinOp.SHIFT_LEFT),
    BinOp.SHIFT_RIGHT: _shift(BinOp.SHIFT_RIGHT),
}
# What an index of 64 bits may be divided by.
_LARGEST_DIVISOR = 2**63
# What an index may be shifted by to be multiplied or divided by a number of 64 bits.
_SHIFT_LIMIT = 63
# The operations that are also valid modulo 2**64.
_RING = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL})
DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV})


def from_poly(p: Poly) -> Expr:
    """The expression of a polynomial."""
    if any(abs(c) >= _WRAP_LIMIT for c in p.values()) and any(depends_on_data(atom) for m in p for atom in m):
        p = {m: w for m, c in p.items() if (w := (c + _WRAP_LIMIT) % (2 * _WRAP_LIMIT) - _WRAP_LIMIT)}
    if not p:
        return ZERO
    ordered = sorted(p.items(), key=lambda item: (not item[0], item[1] < 0, [order_of(a) for a in item[0]]))
    out: Expr | None = None
    for monomial, coefficient in ordered:
        if out is None:
            out = _term(monomial, coefficient)
        elif -_WRAP_LIMIT < coefficient < 0:  # -2**63 has no magnitude in 64 bits
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
    for m, c in to_poly(e).items():
        rest = divide_monomial(m, (target,))
        left = m if rest is None else rest
        if any(var in _free_vars(atom) for atom in left):
            raise NotAffine(f"not linear in {var}")
        if rest is not None:
            out = add(out, {rest: c})
    return from_poly(out)


def touches(atom: Expr, names: frozenset[str]) -> bool:
    """Whether an atom depends on one of the variables."""
    return not names.isdisjoint(_free_vars(atom))


def split_inner(p: Poly, names: frozenset[str]) -> tuple[Poly, dict[Monomial, Poly]]:
    """`p` as a part free of `names`, and for each product of atoms with them its coefficient."""
    base: Poly = {}
    inner: dict[Monomial, Poly] = {}
    for m, c in p.items():
        inside = tuple(a for a in m if touches(a, names))
        outside = tuple(a for a in m if not touches(a, names))
        if inside:
            inner[inside] = add(inner.get(inside, {}), {outside: c})
        else:
            base[m] = c
    return base, inner


@lru_cache(maxsize=1 << 14)
def terms_over(e: Expr, names: frozenset[str]) -> tuple[Expr, Mapping[Monomial, Expr]]:
    """`e` as a part free of `names`, and the coefficient of each product of atoms that touch them."""
    base, inner = split_inner(to_poly(e), names)
    return from_poly(base), {product: from_poly(p) for product, p in inner.items()}


def linear(e: Expr, names: frozenset[str]) -> tuple[Expr, dict[Expr, Expr]]:
    """`e` as a part free of `names`, and the coefficient of each variable, quotient or remainder that touches them.

    Raises NotAffine when two of these are multiplied.
    """
    base, terms = terms_over(e, names)
    if any(len(product) != 1 for product in terms):
        raise NotAffine("a product of loop variables")
    return base, {product[0]: coefficient_ for product, coefficient_ in terms.items()}
