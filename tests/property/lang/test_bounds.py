"""What `Assumptions` says about an index holds for every iteration at which the conditions hold."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from metasched.dtypes import DType
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Select, Unary, UnOp, Var
from metasched.lang.elaboration.bounds import Assumptions

EXTENTS = {"i": 5, "j": 3, "k": 1}

small = st.integers(-4, 6).map(Const)
divisors = st.integers(1, 4).map(Const)
places = st.integers(0, 3).map(Const)
leaves = st.one_of(small, st.sampled_from(sorted(EXTENTS)).map(Var))


def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    linear = st.sampled_from([BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MIN, BinOp.MAX])
    divided = st.sampled_from([BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV])
    return st.one_of(
        st.builds(Binary, linear, inner, inner),
        st.builds(Binary, divided, inner, divisors),
        st.builds(Binary, st.sampled_from([BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR]), inner, inner),
        st.builds(Binary, st.sampled_from([BinOp.SHIFT_LEFT, BinOp.SHIFT_RIGHT]), inner, places),
        st.builds(Unary, st.just(UnOp.NEG), inner),
        st.builds(Select, comparisons(inner), inner, inner),
    )


def comparisons(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(Binary, st.sampled_from([op for op in BinOp if op.is_comparison]), inner, inner)


indices = st.recursive(leaves, larger, max_leaves=5)
conditions = st.recursive(
    st.one_of(comparisons(indices), st.booleans().map(lambda b: Const(b, DType.BOOL))),
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from([BinOp.AND, BinOp.OR]), inner, inner),
        st.builds(Unary, st.just(UnOp.NOT), inner),
    ),
    max_leaves=4,
)

COMPUTE = {
    BinOp.ADD: lambda a, b: a + b,
    BinOp.SUB: lambda a, b: a - b,
    BinOp.MUL: lambda a, b: a * b,
    BinOp.FLOORDIV: lambda a, b: a // b,
    BinOp.MOD: lambda a, b: a % b,
    BinOp.CEILDIV: lambda a, b: -(-a // b),
    BinOp.MIN: min,
    BinOp.MAX: max,
    BinOp.LT: lambda a, b: a < b,
    BinOp.LE: lambda a, b: a <= b,
    BinOp.GT: lambda a, b: a > b,
    BinOp.GE: lambda a, b: a >= b,
    BinOp.EQ: lambda a, b: a == b,
    BinOp.NE: lambda a, b: a != b,
    BinOp.AND: lambda a, b: a and b,
    BinOp.OR: lambda a, b: a or b,
    BinOp.BIT_AND: lambda a, b: a & b,
    BinOp.BIT_OR: lambda a, b: a | b,
    BinOp.BIT_XOR: lambda a, b: a ^ b,
    BinOp.SHIFT_LEFT: lambda a, b: a << b,
    BinOp.SHIFT_RIGHT: lambda a, b: a >> b,
}


def value(e: Expr, point: dict[str, int]) -> int:
    match e:
        case Const(value=number):
            return int(number)
        case Var(name=name):
            return point[name]
        case Unary(op=op, a=a):
            return -value(a, point) if op is UnOp.NEG else not value(a, point)
        case Binary(op=op, a=a, b=b):
            return int(COMPUTE[op](value(a, point), value(b, point)))
        case Select(cond=cond, then=then, otherwise=otherwise):
            return value(then if value(cond, point) else otherwise, point)
    raise AssertionError(e)


@given(indices, conditions, st.booleans())
def test_bounds_hold(index: Expr, condition: Expr, holds: bool) -> None:
    assumed = Assumptions(EXTENTS).assume(condition, holds)
    lo, hi = assumed.range(index)
    for numbers in product(*(range(n) for n in EXTENTS.values())):
        point = dict(zip(EXTENTS, numbers, strict=True))
        if bool(value(condition, point)) is holds:
            assert not assumed.dead
            assert lo <= value(index, point) <= hi
