"""How large expressions are, and that what is there twice counts twice without being visited twice."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.ir.limits import MAX_LEVELS, MAX_NODES, ExpressionSize, size_of, too_large
from metasched.ir.nodes import Binary, BinOp, Expr, Var

X = Var("x", DType.F32)


def test_sizes() -> None:
    assert size_of(X) == ExpressionSize(1, 1)
    assert size_of(X * (X + X)) == ExpressionSize(3, 5)


def test_what_is_shared_is_counted_as_often_as_it_is_there() -> None:
    e: Expr = X
    for _ in range(60):
        e = Binary(BinOp.MUL, e, e)
    assert size_of(e) == ExpressionSize(61, 2**61 - 1)
    assert too_large(e) == (
        f"this expression has more than {MAX_NODES} operations, reads, names and numbers when it is written out"
    )


def test_depth() -> None:
    e: Expr = X
    for _ in range(5000):
        e = e + X
    assert size_of(e).levels == 5001
    assert too_large(e) == f"this expression is nested more than {MAX_LEVELS} levels deep"


def test_expensive_functions_are_those_that_take_more_than_a_division() -> None:
    cheap = {"abs", "floor", "ceil", "rint", "sqrt", "rsqrt"}
    assert {name for name, f in functions().items() if not f.expensive} == cheap
