"""A quotient and its remainder together are the number itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.ir.integers.affine import const, simplify
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import Binary, BinOp, Expr, Var
from metasched.ir.printer import print_expr

x, y, t = Var("x"), Var("y"), Var("t")


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        ((x // 4) * 4 + x % 4, "x"),
        (x % 4 + (x // 4) * 4, "x"),
        ((x // t) * t + x % t, "x"),
        ((x * 8 + y) // 4 * 4 + (x * 8 + y) % 4, "x*8 + y"),
        ((x // 4) * 8 + (x % 4) * 2 + y, "x*2 + y"),
        ((x // 4) * 4 + x % 4 + (y // 3) * 3 + y % 3, "x + y"),
        (((x // 4) * 4 + x % 4) // 2, "x // 2"),
        (y * (x // 4) * 4 + y * (x % 4), "x*y"),
        (const(3) - x % 4 - (x // 4) * 4, "x*-1 + 3"),
        ((x // 12) * 12 + (x // 4) % 3 * 4 + x % 4, "x"),
        ((x // 4 // 3) * 3 + (x // 4) % 3, "x // 4"),
        ((x * 192 + y) // 9 * 9 + (x * 192 + y) // 3 % 3 * 3 + (x * 192 + y) % 3, "x*192 + y"),
        ((x * 12 + y * 6 + t) // 9 * 18 + (x * 12 + y * 6 + t) // 3 % 3 * 6 + t % 3 * 2, "t*2 + x*24 + y*12"),
        ((x * 64 + y // 3) % 3 * 3 + (x * 64 + y) // 9 * 9, "((x*64 + y) // 9)*9 + ((x*64 + y // 3) % 3)*3"),
        ((x // 10) * 12 + (x // 4) % 3 * 4 + x % 4, "(x // 10)*12 + x % 12"),
        ((x // 28) % 28 * 28 + x % 28, "x % 784"),
        ((x // t) % y * t * 5 + x % t * 5, "(x % (t*y))*5"),
        ((x // 4) % 3 * 5 + x % 4, "(x // 4 % 3)*5 + x % 4"),
        ((y // 4) % 3 * 4 + x % 4, "(y // 4 % 3)*4 + x % 4"),
        ((x // 2**40) % 2**40 * 2**40 + x % 2**40, f"(x // {2**40} % {2**40})*{2**40} + x % {2**40}"),
        ((x // 4) * 5 + x % 4, "(x // 4)*5 + x % 4"),
        ((x // 4) * 4 + y % 4, "(x // 4)*4 + y % 4"),
        ((x // 2) * 4 + x % 4, "(x // 2)*4 + x % 4"),
    ],
)
def test_quotient_and_remainder(e: Expr, expected: str) -> None:
    assert print_expr(simplify(e)) == expected


def combined(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.builds(Binary, st.sampled_from([BinOp.ADD, BinOp.SUB]), inner, inner)
    scaled = st.builds(lambda e, c: e * c, inner, st.integers(-3, 6))
    parts = st.builds(lambda e, c, op: Binary(op, e, const(c)), inner, st.integers(1, 6), st.sampled_from(PARTS))
    return pairs | scaled | parts


PARTS = [BinOp.FLOORDIV, BinOp.MOD]


@given(
    st.recursive(
        st.sampled_from([x, y, x % 3, (x // 3) * 3, x // 3 % 2, x // 6, y % 4, y // 4]), combined, max_leaves=6
    )
)
def test_normal_forms_have_the_value(e: Expr) -> None:
    points = {"x": np.arange(24), "y": np.arange(24)[::-1] * 5 % 17}
    expected = np.broadcast_to(evaluate(e, points), (24,))
    np.testing.assert_array_equal(np.broadcast_to(evaluate(simplify(e), points), (24,)), expected)
    assert simplify(simplify(e)) == simplify(e)
