"""Linear forms over numbers: what they are made of, and that they keep the value of an expression."""

from __future__ import annotations

import numpy as np

from metasched.ir.integers.evaluate import evaluate
from metasched.ir.integers.linear import Linear, combine, form_of_sum, product, to_expr
from metasched.ir.nodes import Const, Expr, Var

ROW, COLUMN = Var("i"), Var("j")


def form(e: Expr) -> Linear:
    found = form_of_sum(e, form)
    return Linear.of_atom(e) if found is None else found


def test_the_form_of_a_sum() -> None:
    assert form((ROW * 3 - COLUMN) * 2 + 5 - ROW) == Linear(5, ((ROW, 5), (COLUMN, -2)))


def test_what_is_not_linear_is_an_atom() -> None:
    assert form(ROW * COLUMN + ROW // 2) == Linear(0, ((ROW * COLUMN, 1), (ROW // 2, 1)))
    assert form_of_sum(ROW // 2, form) is None
    assert form(ROW // 2).is_atom
    assert not form(ROW * 2).is_atom
    assert not form(ROW + 1).is_atom


def test_atoms_that_cancel_are_gone() -> None:
    assert combine((2, form(ROW + COLUMN)), (-2, form(COLUMN))) == form(ROW * 2)
    assert form(ROW).times(0) == Linear(0)
    assert form(ROW).plus(form(ROW), -1) == Linear(0)


def test_coefficients_are_exact() -> None:
    large = form(ROW * 2**62).times(4)
    assert large.coefficient(ROW) == 2**64
    assert large.coefficient(COLUMN) == 0


def test_a_product_needs_a_number() -> None:
    assert product(form(ROW + 1), Linear(3)) == product(Linear(3), form(ROW + 1)) == Linear(3, ((ROW, 3),))
    assert product(form(ROW), form(COLUMN)) is None


def test_an_expression_of_the_same_value() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b, c = (int(n) for n in rng.integers(-9, 10, 3))
        e = (ROW * a + b) * c - (COLUMN - ROW) * b - Const(c)
        values = {"i": int(rng.integers(50)), "j": int(rng.integers(50))}
        assert evaluate(to_expr(form(e)), values) == evaluate(e, values)
