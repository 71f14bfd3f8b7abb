from __future__ import annotations

from metasched.schedule.primitives.cache_write import cache_write
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL
from tests.support.structural import body, refused, same, split, start


def test_a_reduction() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    assert cache_write(ctx, "dense", "local") == "dense.C.write"
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
temp C_local: f32[11, 9] local
for i, j, k in grid(11, 9, 7):
    dense: C_local[i, j] += A[i, k] * B[k, j]  init 0.0
for i_dense_C_write, j_dense_C_write in grid(11, 9):
    dense.C.write: C[i, j] = C_local[i, j]  with i = i_dense_C_write, j = j_dense_C_write
for i_relu, j_relu in grid(11, 9):
    relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )


def test_an_output_of_a_decomposed_reduction() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    decompose_reduction(ctx, "matmul", "k_matmul")
    cache_write(ctx, "matmul")
    same(before, ctx.func)
    assert "matmul.init: E_global[i, j] = 0.0" in body(ctx.func)


def test_moved_to_where_it_is_complete() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    (i0, i1), (j0, j1) = split(ctx, "i", 4), split(ctx, "j", 2)
    reorder(ctx, i0, j0, "k", i1, j1)
    reverse_compute_at(ctx, cache_write(ctx, "dense", "register"), j0)
    same(before, ctx.func)


def test_a_reader_in_its_loops() -> None:
    ctx = start(RELU_PAD_MATMUL)
    compute_at(ctx, "relu", "i_pad")
    with refused("`pad` reads `B` inside loop `i_pad` of `relu`"):
        cache_write(ctx, "relu")


def test_an_initialisation() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "k")
    with refused("block `dense.init` does not complete `C`, `dense` does"):
        cache_write(ctx, "dense.init")


def test_no_such_scope() -> None:
    with refused('there is no scope "l1"'):
        cache_write(start(DENSE_RELU), "dense", "l1")
