from __future__ import annotations

import pytest

from metasched.errors import ScheduleError
from metasched.schedule.primitives.cache_read import cache_read
from metasched.schedule.primitives.compute_at import compute_at
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL
from tests.support.structural import body, refused, same, split, start


def test_an_input() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    assert cache_read(ctx, "dense", "A", "local") == "dense.A.read"
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
temp A_local: f32[11, 7] local
for i_dense_A_read, k_dense_A_read in grid(11, 7):
    dense.A.read: A_local[i, k] = A[i, k]  with i = i_dense_A_read, k = k_dense_A_read
for i, j, k in grid(11, 9, 7):
    dense: C[i, j] += A_local[i, k] * B[k, j]  init 0.0
for i_relu, j_relu in grid(11, 9):
    relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )


def test_an_intermediate_result_of_indices_that_are_not_variables() -> None:
    ctx = start(CONV)
    before = ctx.func
    cache_read(ctx, "conv", "Xp")
    same(before, ctx.func)
    assert "conv.Xp.read: Xp_global[ax0, ax1, c] = Xp[ax0, ax1, c]" in body(ctx.func)


def test_twice_gives_fresh_names() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    cache_read(ctx, "dense", "A", "local")
    assert cache_read(ctx, "dense.A.read", "A", "local") == "dense.A.read.A.read"
    same(before, ctx.func)
    assert [b.name for b in ctx.func.temps] == ["C", "A_local", "A_local_1"]


def test_moved_to_where_it_is_needed() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    i0, _ = split(ctx, "i", 4)
    compute_at(ctx, cache_read(ctx, "dense", "A", "local"), i0)
    same(before, ctx.func)


def test_a_buffer_it_does_not_read() -> None:
    with refused("block `relu` does not read `A`"):
        cache_read(start(DENSE_RELU), "relu", "A")
    with pytest.raises(ScheduleError, match="hint: it reads `C`"):
        cache_read(start(DENSE_RELU), "relu", "A")


def test_a_buffer_computed_in_its_loops() -> None:
    ctx = start(RELU_PAD_MATMUL)
    compute_at(ctx, "relu", "i_pad")
    with refused("`B` is computed by `relu` inside loop `i_pad` of `pad`"):
        cache_read(ctx, "pad", "B")


def test_no_such_scope() -> None:
    with refused('there is no scope "l1"'):
        cache_read(start(DENSE_RELU), "dense", "A", "l1")
