"""Quotients and remainders that the loops' ranges decide."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.compiler.lower.quotients import drop_zero_quotients
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Binary, BinOp, Expr, Var
from tests.support.targets import AVX512

ROW, COLUMN = Var("i"), Var("j")
RANGES = {"i": const(14), "j": const(3)}


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (Binary(BinOp.MOD, ROW, const(14)), ROW),
        (Binary(BinOp.MOD, ROW, const(13)), None),
        (Binary(BinOp.FLOORDIV, ROW, const(14)), const(0)),
        (Binary(BinOp.FLOORDIV, ROW, const(7)), None),
        (Binary(BinOp.MOD, ROW * 3 + COLUMN, const(42)), ROW * 3 + COLUMN),
        (Binary(BinOp.MOD, Binary(BinOp.FLOORDIV, ROW, const(2)), const(7)), Binary(BinOp.FLOORDIV, ROW, const(2))),
        (Binary(BinOp.MOD, ROW + 13, const(14)), None),
        (Binary(BinOp.MOD, Var("unknown"), const(14)), None),
    ],
    ids=str,
)
def test_what_ranges_decide(e: Expr, expected: Expr | None) -> None:
    assert drop_zero_quotients(e, RANGES) == (e if expected is None else expected)


def test_fused_loops_of_one_iteration_leave_no_division() -> None:
    sch = ms.Schedule(ms.parse_program("program p[N=1, M=9](A: f32[N, M]) -> B: f32[N, M]:\n    B[i, j] = A[i, j]"))
    sch.parallel(sch.fuse(*sch.get_loops(sch.get_block("B"))))
    assert "%" not in print_kernel(lower(sch.func, AVX512))


def test_conditions_of_terms_have_no_division_that_their_tile_decides() -> None:
    """`i // 4` is the number of the tile of 4."""
    sch = ms.Schedule(
        ms.parse_program(
            "program p[N=16, M=8](A: f32[N, M], B: f32[M, N]) -> C: f32[N, N]:\n"
            "    C[i, j] = sum[k if i // 4 * 4 + k >= 6](A[i, k] * B[k, j])"
        )
    )
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, j, k, i1)
    sch.unroll(i1)
    assert "if i_0*4 + k >= 6:" in print_kernel(lower(sch.func, AVX512))
