"""Index expressions in one linear form, simplified by what is known of their variables.

An index is a sum of terms, each a whole number times an *atom*: a variable, or a quotient or remainder of a sum by a
number. Quotients and remainders are worked out where the ranges of variables decide them, as in
`(64*h + d) // 64` with `d < 64`, which is `h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.source import IntLit, Name, Operation, Prefix, SourceExpr
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class IndexSum:
    """A sum: whole numbers times atoms, in the order in which they were met, and a number."""

    terms: tuple[tuple[SourceExpr, int], ...]
    constant: int = 0

    def plus(self, other: IndexSum, factor: int = 1) -> IndexSum:
        """This sum and a multiple of another."""
        out = dict(self.terms)
        for atom, coefficient in other.terms:
            out[atom] = out.get(atom, 0) + factor * coefficient
        kept = tuple((atom, coefficient) for atom, coefficient in out.items() if coefficient)
        return IndexSum(kept, self.constant + factor * other.constant)

    def times(self, factor: int) -> IndexSum:
        return IndexSum(()).plus(self, factor)

    def expression(self) -> SourceExpr:
        """The sum as an expression: what is added comes before what is subtracted."""
        out: SourceExpr | None = None
        for atom, coefficient in sorted(self.terms, key=lambda term: term[1] < 0):
            part = atom if abs(coefficient) == 1 else Operation(BinOp.MUL, IntLit(abs(coefficient)), atom)
            if out is None:
                out = part if coefficient > 0 else Operation(BinOp.MUL, IntLit(coefficient), atom)
            else:
                out = Operation(BinOp.ADD if coefficient > 0 else BinOp.SUB, out, part)
        if out is None:
            return IntLit(self.constant)
        if self.constant:
            sign = BinOp.ADD if self.constant > 0 else BinOp.SUB
            return Operation(sign, out, IntLit(abs(self.constant)))
        return out


Extents = Mapping[str, int]


def linear_form(e: SourceExpr, extents: Extents) -> IndexSum | None:
    """The linear form of an index; None where it is not one: it depends on data, or multiplies variables.

    `extents` has the variables, each of which runs from 0 to its extent.
    """
    match e:
        case IntLit(value=value):
            return IndexSum((), value)
        case Name(name=name):
            if name not in extents:
                return None
            return IndexSum(((Name(name), 1),))
        case Prefix(op=UnOp.NEG, a=a):
            inner = linear_form(a, extents)
            return None if inner is None else inner.times(-1)
        case Operation(op=BinOp.ADD | BinOp.SUB | BinOp.MUL | BinOp.FLOORDIV | BinOp.MOD):
            return _operation(e, extents)
    return None


def _operation(e: Operation, extents: Extents) -> IndexSum | None:
    a, b = linear_form(e.a, extents), linear_form(e.b, extents)
    if a is None or b is None:
        return None
    if e.op is BinOp.ADD:
        return a.plus(b)
    if e.op is BinOp.SUB:
        return a.plus(b, -1)
    if e.op is BinOp.MUL:
        if not b.terms:
            return a.times(b.constant)
        return b.times(a.constant) if not a.terms else None
    if b.terms or b.constant <= 0:
        return None
    return floordiv(a, b.constant, extents) if e.op is BinOp.FLOORDIV else modulo(a, b.constant, extents)


def floordiv(value: IndexSum, by: int, extents: Extents) -> IndexSum:
    """The quotient of a sum by a positive number, rounded down."""
    if by == 1:
        return value
    whole, rest = _parts(value, by)
    low, high = bounds(rest, extents)
    if low // by == high // by:
        return IndexSum(whole.terms, whole.constant + low // by)
    unit, coarse, _ = _split_by_unit(rest, by, extents)
    if unit > 1:
        return whole.plus(floordiv(coarse, by // unit, extents))
    return whole.plus(IndexSum(((Operation(BinOp.FLOORDIV, rest.expression(), IntLit(by)), 1),)))


def modulo(value: IndexSum, by: int, extents: Extents) -> IndexSum:
    """The remainder of a sum by a positive number, which is never negative."""
    if by == 1:
        return IndexSum(())
    _, rest = _parts(value, by)
    low, high = bounds(rest, extents)
    if low // by == high // by:
        return IndexSum(rest.terms, rest.constant - low // by * by)
    unit, coarse, fine = _split_by_unit(rest, by, extents)
    if unit > 1:
        return modulo(coarse, by // unit, extents).times(unit).plus(fine)
    return IndexSum(((Operation(BinOp.MOD, rest.expression(), IntLit(by)), 1),))


def _parts(value: IndexSum, by: int) -> tuple[IndexSum, IndexSum]:
    """A sum as `by` times the first part, plus the second."""
    whole = tuple((atom, c // by) for atom, c in value.terms if c % by == 0)
    rest = tuple((atom, c) for atom, c in value.terms if c % by)
    return IndexSum(whole, value.constant // by), IndexSum(rest, value.constant % by)


def _split_by_unit(value: IndexSum, by: int, extents: Extents) -> tuple[int, IndexSum, IndexSum]:
    """A divisor of `by`, and a sum as that times the second part, plus the third, which is never as much as it.

    So `(64*c + w) // 192` is `c // 3` where `w` is less than 64. The divisor is 1 where there is no such.
    """
    unit = by
    for factor in sorted({abs(c) for _, c in value.terms}, reverse=True):
        unit = gcd(unit, factor)
        coarse, fine = _parts(value, unit)
        low, high = bounds(fine, extents)
        if unit > 1 and low >= 0 and high < unit:
            return unit, coarse, fine
    return 1, value, IndexSum(())


def bounds(value: IndexSum, extents: Extents) -> tuple[int, int]:
    """The least and the largest value that a sum may have."""
    low = high = value.constant
    for atom, coefficient in value.terms:
        first, last = _atom_bounds(atom, extents)
        low += min(coefficient * first, coefficient * last)
        high += max(coefficient * first, coefficient * last)
    return low, high


def _atom_bounds(atom: SourceExpr, extents: Extents) -> tuple[int, int]:
    if isinstance(atom, Name):
        return 0, extents[atom.name] - 1
    assert isinstance(atom, Operation), atom
    assert isinstance(atom.b, IntLit), atom
    by = atom.b.value
    if atom.op is BinOp.MOD:
        return 0, by - 1
    inner = linear_form(atom.a, extents)
    assert inner is not None, atom
    low, high = bounds(inner, extents)
    return low // by, high // by


_COMPARISONS = {
    BinOp.LT: lambda low, high: True if high < 0 else False if low >= 0 else None,
    BinOp.LE: lambda low, high: True if high <= 0 else False if low > 0 else None,
    BinOp.GT: lambda low, high: True if low > 0 else False if high <= 0 else None,
    BinOp.GE: lambda low, high: True if low >= 0 else False if high < 0 else None,
}


def decide_comparison(e: Operation, extents: Extents) -> bool | None:
    """Whether a comparison of indices holds wherever it is asked; None where it depends on where."""
    compare = _COMPARISONS.get(e.op)
    a, b = linear_form(e.a, extents), linear_form(e.b, extents)
    if compare is None or a is None or b is None:
        return None
    return compare(*bounds(a.plus(b, -1), extents))
