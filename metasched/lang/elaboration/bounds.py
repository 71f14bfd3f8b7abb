"""Bounds of an index under the conditions around it.

Sizes are already numbers, so an index is a linear form with integer coefficients over *atoms*: iteration variables,
and quotients, remainders, products, minima and maxima taken as opaque. Conditions become linear forms known to be
non-negative. A bound is the interval bound, improved by single-variable conditions and by adding up to three others.

Sums and products of data wrap at 64 bits. So they are decomposed only if they are known not to wrap; otherwise such an
expression is an atom, which only conditions on the same expression bound.

Cost: a form is made once for each expression and set of conditions, and takes a step for each of its terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple, TypeAlias

from metasched.dtypes import INDEX, DType, holds_range, integer_range
from metasched.ir.integers.affine import simplify
from metasched.ir.integers.bit_ranges import range_of_bits
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.linear import Linear, form_of_sum
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Load, Select, Unary, UnOp, Var
from metasched.support.data_classes import dataclass

# An integer, or an infinity where nothing is known.
Bound: TypeAlias = int | float

# Windows have three dimensions at most, each with a condition on both its sides.
_MAX_FACTS_COMBINED = 3


class Range(NamedTuple):
    """Inclusive."""

    lo: Bound
    hi: Bound


@dataclass(frozen=True)
class Assumptions:
    """Extents of the iteration variables, and linear forms known to be non-negative here.

    `dead`: the conditions cannot all hold, so nothing under them runs. `data` has, for a buffer of positions, how many
    values, from 0 on, its elements may take.
    """

    extents: Mapping[str, int]
    known: tuple[Linear, ...] = ()
    dead: bool = False
    data: Mapping[str, int] = field(default_factory=dict)
    _structures: dict[Expr, Range] = field(default_factory=dict, compare=False, repr=False)
    _forms: dict[Expr, Linear] = field(default_factory=dict, compare=False, repr=False)

    def assume(self, cond: Expr, holds: bool) -> Assumptions:
        """The assumptions given that `cond` holds, or that it does not."""
        match cond:
            case Const(value=value):
                return self._extend(dead=self.dead or bool(value) is not holds)
            case Unary(op=UnOp.NOT, a=a):
                return self.assume(a, not holds)
            case Binary(op=BinOp.AND, a=a, b=b) if holds:
                return self.assume(a, True).assume(b, True)
            case Binary(op=BinOp.OR, a=a, b=b) if not holds:
                return self.assume(a, False).assume(b, False)
            case Binary(op=op, a=a, b=b) if op.is_comparison and a.dtype.is_integer:
                return self._extend(_nonnegative_forms(op, self._linear(a), self._linear(b), holds))
        return self

    def drop_conditions(self) -> Assumptions:
        """The assumptions that hold without any condition."""
        return Assumptions(self.extents, data=self.data)

    def _extend(self, known: tuple[Linear, ...] = (), *, dead: bool = False) -> Assumptions:
        return Assumptions(self.extents, self.known + known, self.dead or dead, self.data)

    def range(self, e: Expr) -> Range:
        """Bounds of an integer expression."""
        return self._range(self._linear(e))

    def fits_64_bits(self, e: Expr) -> bool:
        """Whether an integer expression, and the numbers in its normal form, are known to fit in 64 bits."""
        form = self._linear(e)
        lo, hi = self._range(form)
        numbers = (form.const, *(c for _, c in form.terms))
        return (
            math.isinf(lo)
            or math.isinf(hi)
            or (holds_range(INDEX, lo, hi) and holds_range(INDEX, min(numbers), max(numbers)))
        )

    def _range(self, form: Linear) -> Range:
        known = self.known + self._facts_of_quotients(form)
        return Range(_lower_bound(self._box, form, known), -_lower_bound(self._box, form.times(-1), known))

    def _facts_of_quotients(self, form: Linear) -> tuple[Linear, ...]:
        """The facts that follow from the conditions for each atom of a form that is a quotient by a number.

        With `2*i + r >= 1`, `i + (r + 1) // 2` is 1 or more.
        """
        out = []
        for atom, _ in form.terms if self.known else ():
            match atom:
                case Binary(op=BinOp.FLOORDIV, a=a, b=Const(value=divisor)) if divisor > 0:
                    inner = self._linear(a)
                    out += [f for fact in self.known for f in _quotient_facts(fact, atom, inner, int(divisor))]
        return tuple(out)

    def _linear(self, e: Expr) -> Linear:
        """The linear form of an integer expression, whose value is that of the expression in 64 bits."""
        form = self._forms.get(e)
        if form is None:
            form = self._form(e)
            if depends_on_data(e) and not form.is_atom and not holds_range(INDEX, *self._range(form)):
                form = Linear.of_atom(simplify(e))
            self._forms[e] = form
        return form

    def _form(self, e: Expr) -> Linear:
        match e:
            case Const(value=value):
                return Linear(int(value))
            case Cast(value=value) if e.dtype is INDEX and value.dtype.is_integer:
                inner = self._linear(value)
                # A u64 beyond the largest i64 becomes another number.
                same = holds_range(INDEX, *integer_range(value.dtype)) or holds_range(INDEX, *self._range(inner))
                return inner if same else Linear.of_atom(simplify(e))
            case _ if e.dtype is not INDEX:
                return Linear.of_atom(simplify(e))  # arithmetic in a narrower type may wrap
        form = form_of_sum(e, self._linear)
        if form is not None:
            return form
        simple = simplify(e)
        return Linear.of_atom(e) if simple == e else self._linear(simple)

    def _box(self, form: Linear) -> Bound:
        total: Bound = form.const
        for atom, coefficient in form.terms:
            lo, hi = self._atom(atom)
            total += coefficient * (lo if coefficient > 0 else hi)
        return total

    def _atom(self, atom: Expr) -> Range:
        if atom not in self._structures:
            # A condition may relate an atom to its own parts (`i >= i // 2`); recursive queries get no bound.
            self._structures[atom] = Range(-math.inf, math.inf)
            self._structures[atom] = _wrapped_range(atom, self._structure(atom))
        found = self._tighten_range(atom, self._structures[atom])
        return found if _is_finite(found) else _intersect_ranges(found, *self._shifted_ranges(atom))

    def _tighten_range(self, atom: Expr, found: Range) -> Range:
        """A range, improved by the conditions that are about this atom alone."""
        lo, hi = found
        for fact in self.known:
            if len(fact.terms) != 1:
                continue
            coefficient = fact.coefficient(atom)
            if coefficient > 0:
                lo = max(lo, _ceildiv(-fact.const, coefficient))
            elif coefficient < 0:
                hi = min(hi, fact.const // -coefficient)
        return Range(lo, hi)

    def _shifted_ranges(self, atom: Expr) -> Iterator[Range]:
        """The ranges of an atom of data that conditions on it plus a number imply, such as on `T[i] - 1` for `T[i]`.

        Such an atom may wrap, so its range says something only where it has two ends, and where the shift back stays in
        64 bits.
        """
        if atom.dtype is not INDEX or not depends_on_data(atom):
            return
        own = self._unwrapped_form(atom)
        for other in dict.fromkeys(other for fact in self.known for other, _ in fact.terms):
            shift = own.plus(self._unwrapped_form(other), -1) if other != atom and other.dtype is INDEX else None
            if shift is None or shift.terms:
                continue
            lo, hi = (end + shift.const for end in self._tighten_range(other, _UNKNOWN))
            if _is_finite(Range(lo, hi)) and holds_range(INDEX, lo, hi):
                yield Range(lo, hi)

    def _unwrapped_form(self, atom: Expr) -> Linear:
        """The form of an atom as if it did not wrap; equal up to a multiple of 2^64."""
        return form_of_sum(atom, self._unwrapped_form) or Linear.of_atom(atom)

    def _structure(self, atom: Expr) -> Range:
        narrow = form_of_sum(atom, self._linear) if atom.dtype is not INDEX and atom.dtype.is_integer else None
        if narrow is not None:
            return self._range(narrow)  # of the sum as it is if it does not wrap; where it may, its type bounds it
        match atom:
            case Var(name=name) if name in self.extents:
                return Range(0, self.extents[name] - 1)
            case Load(buffer=buffer) if buffer in self.data:
                return Range(0, self.data[buffer] - 1)
            case Binary(op=BinOp.FLOORDIV | BinOp.CEILDIV as op, a=a, b=Const(value=divisor)) if divisor > 0:
                lo, hi = self.range(a)
                divide = _floordiv if op is BinOp.FLOORDIV else _ceildiv
                return Range(divide(lo, int(divisor)), divide(hi, int(divisor)))
            case Binary(op=BinOp.MOD, a=a, b=Const(value=divisor)) if divisor > 0:
                inner = self.range(a)
                return inner if inner.lo >= 0 and inner.hi < divisor else Range(0, int(divisor) - 1)
            case Binary(op=BinOp.FLOORDIV | BinOp.MOD as op, a=a, b=b):
                # No quotient is further from zero than the dividend, and no remainder further than the divisor.
                most = max(map(abs, self.range(a if op is BinOp.FLOORDIV else b)))
                return Range(-most, most)
            case Binary(op=BinOp.MIN | BinOp.MAX as op, a=a, b=b):
                one, two = self.range(a), self.range(b)
                pick = min if op is BinOp.MIN else max
                return Range(pick(one.lo, two.lo), pick(one.hi, two.hi))
            case Binary(op=op, a=a, b=b) if op.is_of_bits or op.is_shift:
                bits = range_of_bits(op, _clip_range(a.dtype, self.range(a)), _clip_range(b.dtype, self.range(b)))
                return Range(*bits)
            case Binary(op=BinOp.MUL, a=a, b=b):
                corners = [_times(x, y) for x in self.range(a) for y in self.range(b)]
                return Range(min(corners), max(corners))
            case Select(then=then, otherwise=otherwise):
                one, two = self.range(then), self.range(otherwise)
                return Range(min(one.lo, two.lo), max(one.hi, two.hi))
            case Cast(value=value, type=dtype) if value.dtype.is_integer and dtype.is_integer:
                found = self.range(value)
                return found if holds_range(dtype, *found) else Range(*integer_range(dtype))
        return _UNKNOWN


_UNKNOWN = Range(-math.inf, math.inf)


def _lower_bound(
    box: Callable[[Linear], Bound], form: Linear, known: tuple[Linear, ...], combined: int = _MAX_FACTS_COMBINED
) -> Bound:
    """The largest lower bound of a form found by its intervals, and by adding up to so many of the known forms."""
    best = box(form)
    if combined == 0:
        return best
    for fact in known:
        for atom, coefficient in fact.terms:
            wanted = form.coefficient(atom)
            if wanted * coefficient <= 0:
                continue
            # form * p = (form * p - fact * q) + fact * q, and the last is >= 0; `atom` cancels.
            g = math.gcd(wanted, coefficient)
            p, q = abs(coefficient) // g, abs(wanted) // g
            rest = _lower_bound(box, form.times(p).plus(fact, -q), known, combined - 1)
            best = max(best, _ceildiv(rest, p))
    return best


def _quotient_facts(fact: Linear, quotient: Expr, inner: Linear, divisor: int) -> Iterator[Linear]:
    """Forms of `inner // divisor`, the atom `quotient`, that are not negative because a form of `inner` is not."""
    for sign in (1, -1):
        # fact = sign * inner + divisor * rest + over, so sign * inner >= -(divisor * rest + over).
        difference = fact.plus(inner, -sign)
        if any(coefficient % divisor for _, coefficient in difference.terms):
            continue
        rest = Linear(0, tuple((atom, coefficient // divisor) for atom, coefficient in difference.terms))
        over = difference.const
        whole = -(-over // divisor) if sign > 0 else over // divisor
        yield rest.plus(Linear(whole, ((quotient, sign),)))


def _wrapped_range(atom: Expr, found: Range) -> Range:
    """The range of an atom: if it may wrap, that of its type, and for 64 bits no bound at all."""
    if holds_range(atom.dtype, *found):
        return found
    if atom.dtype is not INDEX:
        return Range(*integer_range(atom.dtype))
    return _UNKNOWN if isinstance(atom, Binary) and atom.op in _OVERFLOW_OPERATORS else found


def _clip_range(dtype: DType, found: Range) -> tuple[int, int]:
    """The part of a range that is within the range of a type, as two integers."""
    lowest, highest = integer_range(dtype)
    return int(max(found.lo, lowest)), int(min(found.hi, highest))


# Operators that make numbers beyond 64 bits of numbers that fit in them.
_OVERFLOW_OPERATORS = (BinOp.MUL, BinOp.SHIFT_LEFT)


def _nonnegative_forms(op: BinOp, a: Linear, b: Linear, holds: bool) -> tuple[Linear, ...]:
    """The linear forms that are >= 0 when `a op b` holds (or does not)."""
    difference, opposite = a.plus(b, -1), b.plus(a, -1)
    minus_one = Linear(-1)
    match op, holds:
        case (BinOp.GE, True) | (BinOp.LT, False):
            return (difference,)
        case (BinOp.LE, True) | (BinOp.GT, False):
            return (opposite,)
        case (BinOp.GT, True) | (BinOp.LE, False):
            return (difference.plus(minus_one),)
        case (BinOp.LT, True) | (BinOp.GE, False):
            return (opposite.plus(minus_one),)
        case (BinOp.EQ, True) | (BinOp.NE, False):
            return difference, opposite
    return ()


def _is_finite(found: Range) -> bool:
    return not (math.isinf(found.lo) or math.isinf(found.hi))


def _intersect_ranges(first: Range, *others: Range) -> Range:
    return Range(max(r.lo for r in (first, *others)), min(r.hi for r in (first, *others)))


def _floordiv(value: Bound, divisor: int) -> Bound:
    return value if math.isinf(value) else int(value) // divisor


def _ceildiv(value: Bound, divisor: int) -> Bound:
    return value if math.isinf(value) else -(-int(value) // divisor)


def _times(a: Bound, b: Bound) -> Bound:
    # Infinity times zero is zero here: a bound of a product of integers.
    return 0 if a == 0 or b == 0 else a * b
