"""Programs and expressions as text."""

from __future__ import annotations

import pytest

from metasched.dtypes import DType
from metasched.ir.integers.affine import const
from metasched.ir.nodes import (
    FALSE,
    Annotation,
    Binary,
    BinOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    IterVar,
    Load,
    LoopKind,
    Reducer,
    Scalar,
    Scope,
    Select,
    Seq,
    Store,
    Unary,
    UnOp,
    Var,
)
from metasched.ir.printer import print_expr, print_func

a, b, c, i, j, k = (Var(n) for n in "abcijk")
F32 = DType.F32


def binary(op: BinOp, x: Expr, y: Expr) -> Expr:
    return Binary(op, x, y)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (a + b + c, "a + b + c"),
        (a + (b + c), "a + (b + c)"),
        (a - (b - c), "a - (b - c)"),
        (a - b * c, "a - b*c"),
        ((a + b) * c, "(a + b)*c"),
        (a // b * c, "(a // b)*c"),
        (a // (b * c), "a // (b*c)"),
        (a * b % c, "a*b % c"),
        (-a * b, "-a*b"),
        (-(a * b), "-(a*b)"),
        (a - const(-1), "a - -1"),
        (binary(BinOp.CEILDIV, a + b, c), "ceildiv(a + b, c)"),
        (binary(BinOp.MIN, a, b) * c, "min(a, b)*c"),
        (binary(BinOp.AND, a < b, binary(BinOp.OR, b < c, a >= c)), "a < b and (b < c or a >= c)"),
        (binary(BinOp.OR, binary(BinOp.AND, a < b, b < c), a < c), "a < b and b < c or a < c"),
        (Unary(UnOp.NOT, a < b), "not a < b"),
        (Unary(UnOp.NOT, binary(BinOp.AND, a < b, b < c)), "not (a < b and b < c)"),
        (binary(BinOp.EQ, a < b, FALSE), "(a < b) == False"),
        (Select(a < b, a, b), "a if a < b else b"),
        (Select(a < b, a, Select(b < c, b, c)), "a if a < b else b if b < c else c"),
        (Select(a < b, a, b) + c, "(a if a < b else b) + c"),
        (Load("A", (a, b + 1), F32) * Load("B", (c,), F32), "A[a, b + 1] * B[c]"),
        (Load("S", (), F32) / Const(2.0, F32), "S[] / 2.0"),
        (Call("exp", (Load("A", (a,), F32),), F32), "exp(A[a])"),
        (Cast(a * b, DType.I32), "i32(a*b)"),
        (Const(float("-inf"), F32), "-inf"),
        (Const(float("nan"), F32), "nan"),
        (Const(1e-05, F32), "1e-05"),
    ],
)
def test_expressions_have_few_parentheses(e: Expr, text: str) -> None:
    assert print_expr(e) == text


def scheduled() -> Func:
    t0 = Var("t0")
    i0, i1, j0, j1 = (Var(n) for n in ("i_0", "i_1", "j_0", "j_1"))
    spatial = (IterVar("i", const(127), IterKind.SPATIAL), IterVar("j", const(512), IterKind.SPATIAL))
    dense = Block(
        "dense",
        (*spatial, IterVar("k", const(512), IterKind.REDUCE)),
        (i0 * t0 + i1, j0 * 32 + j1, k),
        (i0 * t0 + i1 < 127, j0 * 32 + j1 < 512),
        Store("C", (i, j), Load("A", (i, k), F32) * Load("B", (k, j), F32)),
        Reducer.SUM,
        Const(0.0, F32),
        (Annotation("unroll_limit", const(16)),),
    )
    relu = Block(
        "relu",
        spatial,
        (i, j),
        (),
        Store("D", (i, j), Binary(BinOp.MAX, Load("C", (i, j), F32), Const(0.0, F32))),
    )
    inner = For("j_1", const(32), dense, LoopKind.VECTORIZED, const(16))
    inner = For("k", const(512), For("i_1", t0, inner, LoopKind.UNROLLED))
    inner = For("i_0", Binary(BinOp.CEILDIV, const(127), t0), For("j_0", const(16), inner), LoopKind.PARALLEL)
    outer = For("i", const(127), For("j", const(512), relu))
    return Func(
        "dense_relu",
        (Buffer("A", (const(127), const(512)), F32), Buffer("B", (const(512), const(512)), F32, const=True)),
        (Scalar("alpha", F32),),
        ("A", "alpha", "B"),
        (Buffer("D", (const(127), const(512)), F32),),
        (Buffer("C", (const(127), const(512)), F32, Scope.LOCAL),),
        Seq((inner, outer)),
    )


def test_a_scheduled_program() -> None:
    assert (
        print_func(scheduled())
        == """\
func dense_relu(A: f32[127, 512], alpha: f32, const B: f32[512, 512]) -> D: f32[127, 512]:
    temp C: f32[127, 512] local
    parallel i_0 in ceildiv(127, t0):
        for j_0, k in grid(16, 512):
            unrolled i_1 in t0:
                vectorized(16) j_1 in 32:
                    dense: C[i, j] += A[i, k] * B[k, j]
                        init 0.0  with i = i_0*t0 + i_1, j = j_0*32 + j_1  if i < 127  @unroll_limit(16)
    for i, j in grid(127, 512):
        relu: D[i, j] = max(C[i, j], 0.0)"""
    )


def test_marks_underline_loops_blocks_and_buffers() -> None:
    text = print_func(scheduled(), mark=("k", "i_1", "relu", "C"))
    assert (
        """
    temp C: f32[127, 512] local
         ^^^^^^^^^^^^^^^^
"""
        in text
    )
    assert (
        """
        for j_0, k in grid(16, 512):
                 ^
            unrolled i_1 in t0:
            ^^^^^^^^^^^^^^^^^^
"""
        in text
    )
    assert text.endswith("""
        relu: D[i, j] = max(C[i, j], 0.0)
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""")
    assert "^" not in print_func(scheduled(), mark=("nothing",))


def test_two_outputs_a_scalar_buffer_and_the_reducers() -> None:
    n = IterVar("n", const(4), IterKind.REDUCE)
    blocks = [
        Block(f"b{r.value}", (n,), (Var("n"),), (), Store(f"S{r.value}", (), Load("A", (Var("n"),), F32)), r)
        for r in Reducer
        if not r.is_arg
    ]
    loops = tuple(For(f"n{at}", const(4), blk) for at, blk in enumerate(blocks))
    outputs = tuple(Buffer(f"S{r.value}", (), F32) for r in Reducer if not r.is_arg)
    text = print_func(Func("all", (Buffer("A", (const(4),), F32),), (), ("A",), outputs, (), Seq(loops)))
    assert text.splitlines()[0] == "func all(A: f32[4]) -> (Ssum: f32, Sprod: f32, Smax: f32, Smin: f32):"
    assert [line.split(":")[1] for line in text.splitlines()[2::2]] == [
        " Ssum += A[n]",
        " Sprod *= A[n]",
        " Smax max= A[n]",
        " Smin min= A[n]",
    ]
