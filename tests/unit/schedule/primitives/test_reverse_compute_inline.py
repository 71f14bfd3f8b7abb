from __future__ import annotations

import pytest

import metasched as ms
from metasched.errors import ScheduleError
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL, STENCIL
from tests.support.structural import body, refused, same, split, start


def test_an_elementwise_block_into_what_it_reads() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    split(ctx, "k", 4)
    reverse_compute_inline(ctx, "pad")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[4, 11]
for i, k_0, k_1 in grid(4, 3, 4):
    relu: C[i, k] = max(A[i, k], 0.0) if k < 8 else 0.0  with k = k_0*4 + k_1  if k < 11
for i_matmul, j, k_matmul in grid(4, 3, 11):
    matmul: E[i, j] += C[i, k] * D[k, j]  init 0.0  with i = i_matmul, k = k_matmul
"""
    )


def test_transposed_and_into_the_last_of_two() -> None:
    text = """
program p[N=4, M=5](A: f32[N, M]) -> C: f32[M, N]:
    a: X[i, j] = A[i, j] + 1
    b: Y[i, j] = A[i, j] * 3
    c: C[j, i] = X[i, j] - Y[i, j]
"""
    ctx = start(text)
    before = ctx.func
    reverse_compute_inline(ctx, "c")
    same(before, ctx.func)
    assert "b: C[j, i] = X[i, j] - A[i, j] * 3.0" in body(ctx.func)


def test_unit_dimensions() -> None:
    text = """
program p[N=4](A: f32[1, N]) -> C: f32[N]:
    X: f32[1, N]
    a: X[o, i] = A[o, i] + 1
    c: C[i] = X[0, i] * 2
"""
    ctx = start(text)
    before = ctx.func
    reverse_compute_inline(ctx, "c")
    same(before, ctx.func)


def test_a_reduction() -> None:
    with refused("block `dense` is a reduction"):
        reverse_compute_inline(start(DENSE_RELU), "dense")


def test_into_a_reduction() -> None:
    with refused("block `dense` is a reduction"):
        reverse_compute_inline(start(DENSE_RELU), "relu")


def test_into_a_decomposed_reduction() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "k")
    with refused("`C` is written by `dense.init` as well as by `dense`"):
        reverse_compute_inline(ctx, "relu")


def test_neighbours() -> None:
    with refused("block `sum3` reads no intermediate buffer at its own bare iteration variables"):
        reverse_compute_inline(start(STENCIL), "sum3")


def test_two_elements() -> None:
    text = """
program p[N=4](A: f32[N, N]) -> C: f32[N, N]:
    a: X[i, j] = A[i, j] + 1
    c: C[i, j] = X[i, j] + X[j, i]
"""
    with refused("block `c` reads `X` at more than one element"):
        reverse_compute_inline(start(text), "c")


def test_another_reader() -> None:
    text = """
program p[N=4](A: f32[N]) -> (C: f32[N], D: f32[N]):
    a: X[i] = A[i] + 1
    c: C[i] = X[i] * 2
    d: D[i] = X[i] * 3
"""
    with refused("`X`, which `c` reads, is read by `d`, too"):
        reverse_compute_inline(start(text), "c")


def test_another_domain() -> None:
    text = """
program p[N=4, M=3](A: f32[N], B: f32[N, M]) -> C: f32[N, M]:
    a: X[i] = A[i] + 1
    c: C[i, j] = X[i] * B[i, j]
"""
    with refused("`c` and `a` do not run over the same domain: they differ in `j`"):
        reverse_compute_inline(start(text), "c")


def test_what_else_it_reads_comes_later() -> None:
    text = """
program p[N=4](A: f32[N]) -> C: f32[N]:
    a: X[i] = A[i] + 1
    b: Y[i] = A[i] * 2
    c: C[i] = X[i] + Y[0]
"""
    with refused("block `b`, which `c` reads, is not complete before `a`"):
        reverse_compute_inline(start(text), "c")


def test_what_else_it_reads_is_computed_in_the_same_loops() -> None:
    text = """
program p[N=4](A: f32[N]) -> C: f32[N]:
    a: X[i] = A[i] + 1
    b: Y[i] = X[i] * 2
    c: C[i] = X[i] + Y[i]
"""
    ctx = start(text)
    reverse_compute_at(ctx, "b", "i")
    with refused("block `a`, which `c` reads, is not complete before `b`"):
        reverse_compute_inline(ctx, "c")


def test_what_is_computed_again_where_the_tile_is_imperfect() -> None:
    text = """
program p[N=3](A: f32[N]) -> C: f32[N]:
    a: X[i] = A[i] + 1
    c: C[i] = X[i] * 2
"""
    ctx = start(text)
    split(ctx, "i_c", 2)
    reorder(ctx, "i_c_1", "i_c_0")
    compute_at(ctx, "a", "i_c_1")
    with refused(
        "iterations of loop `i_c_1` may compute elements of `X` again, and would compute those of `C` again, too"
    ):
        reverse_compute_inline(ctx, "c")


def test_the_expression_stays_small() -> None:
    stages = [f"    S{k + 1}[i] = S{k}[i] * S{k}[i]\n" for k in range(12)]
    text = f"program p(X: f32[8]) -> Y: f32[8]:\n    S0[i] = X[i] * 2\n{''.join(stages)}    Y[i] = S12[i]\n"
    sch = ms.Schedule(ms.parse_program(text))
    for k in range(1, 8):
        sch.reverse_compute_inline(sch.get_block(f"S{k}"))
    last = sch.get_block("S8")
    with pytest.raises(ScheduleError, match=r"operations, reads and numbers in `S8`; at most 1000 are allowed"):
        sch.reverse_compute_inline(last)


def test_data_that_wraps_is_not_made_an_index() -> None:
    ctx = start("program p() -> Y: i64[4]:\n  T[i < 4] = i - 2\n  Y[i < 4] = T[i] - 9223372036854775807\n")
    with refused(
        "`T` and `Y` in one have index arithmetic that may leave 64 bits, `i - 2 - 9223372036854775807`; "
        "over what is read, it wraps"
    ):
        reverse_compute_inline(ctx, "Y")
