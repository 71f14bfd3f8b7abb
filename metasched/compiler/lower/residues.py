"""Conditions on remainders, such as those of the parities of a strided transposed convolution."""

from __future__ import annotations

from metasched.ir.integers.linear import Linear, form_of_sum, to_expr
from metasched.ir.nodes import Binary, BinOp, Const, Expr


def drop_multiples(guard: Expr) -> Expr:
    """A condition without what is a multiple of a divisor: of `(6*i + j) % 3 == 0`, `j % 3 == 0` is left."""
    if isinstance(guard, Binary) and guard.op is BinOp.MOD and isinstance(guard.b, Const) and guard.b.value:
        divisor, form = int(guard.b.value), _form_of(guard.a)
        left = Linear(form.const % divisor, tuple((atom, c) for atom, c in form.terms if c % divisor))
        return Binary(BinOp.MOD, to_expr(left), guard.b)
    return guard.map(drop_multiples)


def _form_of(e: Expr) -> Linear:
    form = form_of_sum(e, _form_of)
    return Linear.of_atom(e) if form is None else form
