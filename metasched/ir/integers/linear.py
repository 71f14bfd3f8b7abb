"""Linear index arithmetic over numbers: a constant plus integer multiples of *atoms*, exact.

An atom is a variable, or whatever is not linear: a quotient, a remainder, a value read from memory. Where sizes are
free tile variables, coefficients are expressions: that is `metasched.ir.integers.affine.linear`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, UnOp


class Linear(NamedTuple):
    """`const + sum(coefficient * atom)`, each atom once, no zero coefficient."""

    const: int
    terms: tuple[tuple[Expr, int], ...] = ()

    @classmethod
    def of_atom(cls, atom: Expr) -> Linear:
        """An expression that is taken as it is."""
        return cls(0, ((atom, 1),))

    @property
    def is_atom(self) -> bool:
        """Whether it is one atom and nothing else."""
        return self.const == 0 and len(self.terms) == 1 and self.terms[0][1] == 1

    def coefficient(self, atom: Expr) -> int:
        """The coefficient of an atom; 0 if absent."""
        for own, c in self.terms:
            if own == atom:
                return c
        return 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum of this and a multiple of another."""
        return combine((1, self), (factor, other))

    def times(self, factor: int) -> Linear:
        """A multiple of it."""
        return combine((factor, self))


def combine(*parts: tuple[int, Linear]) -> Linear:
    """The sum of multiples of linear forms; atoms come in the order in which they are first met."""
    const = 0
    terms: dict[Expr, int] = {}
    for factor, part in parts:
        const += factor * part.const
        for atom, c in part.terms:
            terms[atom] = terms.get(atom, 0) + factor * c
    return Linear(const, tuple((atom, c) for atom, c in terms.items() if c))


def form_of_sum(e: Expr, form: Callable[[Expr], Linear]) -> Linear | None:
    """The form of a number, a sum, a difference or a multiple by those of its operands; None for what is an atom."""
    if isinstance(e, Const):
        return Linear(int(e.value))
    if isinstance(e, Unary) and e.op is UnOp.NEG:
        return combine((-1, form(e.a)))
    if not isinstance(e, Binary):
        return None
    if e.op is BinOp.ADD:
        return combine((1, form(e.a)), (1, form(e.b)))
    if e.op is BinOp.SUB:
        return combine((1, form(e.a)), (-1, form(e.b)))
    return product(form(e.a), form(e.b)) if e.op is BinOp.MUL else None


def product(a: Linear, b: Linear) -> Linear | None:
    """The product of two forms, one of which is a number; None where neither is."""
    if not b.terms:
        return combine((b.const, a))
    return None if a.terms else combine((a.const, b))


def to_expr(form: Linear) -> Expr:
    """The linear form as an expression."""
    out: Expr | None = None
    for atom, c in form.terms:
        term = atom if c == 1 else Binary(BinOp.MUL, atom, Const(c))
        out = term if out is None else Binary(BinOp.ADD, out, term)
    if out is None:
        return Const(form.const)
    return out if form.const == 0 else Binary(BinOp.ADD, out, Const(form.const))
