from __future__ import annotations

from metasched.ir.integers.affine import const
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.fuse import fuse
from metasched.schedule.primitives.loop_partition import loop_partition
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from tests.support.programs import DENSE_RELU, ROWS
from tests.support.structural import body, refused, same, split, start, vector


def test_before_the_reduction_loop() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    assert decompose_reduction(ctx, "dense", "k") == "dense.init"
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
for i, j in grid(11, 9):
    dense.init: C[i, j] = 0.0
    for k in 7:
        dense: C[i, j] += A[i, k] * B[k, j]
for i_relu, j_relu in grid(11, 9):
    relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )


def test_copies_the_loops_it_needs() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "i", 4)
    split(ctx, "k", 4)
    reorder(ctx, "i_0", "k_0", "i_1", "k_1", "j")
    vector(ctx, "j")
    decompose_reduction(ctx, "dense", "k_0")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
for i_0 in 3:
    for i_1_init in 4:
        vectorized(4) j_init in 9:
            dense.init: C[i, j] = 0.0  with i = i_0*4 + i_1_init, j = j_init  if i < 11
    for k_0, i_1, k_1 in grid(2, 4, 4):
        vectorized(4) j in 9:
            dense: C[i, j] += A[i, k] * B[k, j]
                with i = i_0*4 + i_1, k = k_0*4 + k_1  if i < 11 and k < 7
for i_relu, j_relu in grid(11, 9):
    relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )


def test_at_the_outermost_loop_among_other_stages() -> None:
    ctx = start(ROWS)
    before = ctx.func
    decompose_reduction(ctx, "total", "i_total")
    same(before, ctx.func)


def test_a_block_that_is_no_reduction() -> None:
    with refused("block `relu` is not a reduction"):
        decompose_reduction(start(DENSE_RELU), "relu", "i_relu")


def test_twice() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "k")
    with refused("block `dense` has its initialisation in a block already"):
        decompose_reduction(ctx, "dense", "k")


def test_a_loop_elsewhere() -> None:
    with refused("loop `i_relu` is not around block `dense`"):
        decompose_reduction(start(DENSE_RELU), "dense", "i_relu")


def test_a_reduction_loop_outside() -> None:
    ctx = start(DENSE_RELU)
    reorder(ctx, "k", "i", "j")
    with refused("the reduction of `dense` goes on in loop `k`, outside loop `i`"):
        decompose_reduction(ctx, "dense", "i")


def test_a_loop_over_elements_and_reduction() -> None:
    ctx = start(DENSE_RELU)
    fused = fuse(ctx, "j", "k")
    with refused("loop `j_k` is over both the elements and the reduction of `dense`"):
        decompose_reduction(ctx, "dense", fused)


def test_elements_that_readers_have_computed_again() -> None:
    ctx = start(SHIFTED)
    compute_at(ctx, "total", "i_next")
    with refused(
        "iterations of loop `i_next` may compute elements of `T` again, and would go on from the sums that are there"
    ):
        decompose_reduction(ctx, "total", "i_next")
    before = ctx.func
    decompose_reduction(ctx, "total", "i_total")
    same(before, ctx.func)


def test_elements_that_readers_take_once() -> None:
    ctx = start(DENSE_RELU)
    reverse_compute_at(ctx, "relu", "i")
    before = ctx.func
    decompose_reduction(ctx, "dense", "i")
    same(before, ctx.func)


SHIFTED = """
program shifted[N=5, K=4](A: f32[N, K]) -> C: f32[N]:
    total: T[i] = sum[k](A[i, k])
    next:  C[i] = T[i] + T[(i + 1) % N]
"""


def test_refuses_a_part_of_a_buffer() -> None:
    ctx = start(DENSE_RELU)
    loop_partition(ctx, "i", (const(6),))
    with refused("`C` is written by `dense.tail` as well as by `dense`"):
        decompose_reduction(ctx, "dense", "k")
