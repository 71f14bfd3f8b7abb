"""What values integers that data says may take."""

from __future__ import annotations

import pytest

from metasched.dtypes import INDEX, DType
from metasched.ir.integers.data_ranges import data_range
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Load, Select

X = Load("X", (Const(0),), DType.F32)
BYTE = Load("B", (Const(0),), DType.U8)
WORD = Load("W", (Const(0),), DType.U64)
WHOLE = Cast(X, DType.I32)


def clamped(e: Expr, low: int, high: int) -> Expr:
    return Binary(BinOp.MIN, Binary(BinOp.MAX, e, Const(low, e.dtype)), Const(high, e.dtype))


def plus(e: Expr, n: int) -> Expr:
    return Binary(BinOp.ADD, e, Const(n, e.dtype))


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (BYTE, (0, 255)),
        (Cast(BYTE, INDEX), (0, 255)),
        (plus(Cast(BYTE, INDEX), 3), (3, 258)),
        (Cast(WORD, INDEX), (-(2**63), 2**63 - 1)),  # it wraps
        (Cast(clamped(WORD, 0, 9), INDEX), (0, 9)),
        (plus(BYTE, 3), (0, 255)),  # it wraps
        (clamped(WHOLE, 0, 6), (0, 6)),
        (Cast(clamped(WHOLE, -2, 6), INDEX), (-2, 6)),
        (Cast(clamped(WHOLE, 0, 300), DType.U8), (0, 255)),
        (Binary(BinOp.MUL, Cast(BYTE, INDEX), Const(-2)), (-510, 0)),
        (Select(Binary(BinOp.LT, X, X), Const(4), Cast(BYTE, INDEX)), (0, 255)),
        (WHOLE, (-(2**31), 2**31 - 1)),
        (Cast(Binary(BinOp.LT, X, X), DType.I32), (0, 1)),
    ],
)
def test_bounds_hold_whatever_the_data_is(e: Expr, expected: tuple[int, int]) -> None:
    assert data_range(e) == expected
