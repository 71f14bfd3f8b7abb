from __future__ import annotations

import pytest

from metasched.errors import ScheduleError
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.reindex import reindex
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, STENCIL, TRANSPOSED
from tests.support.schedules import checked, schedule
from tests.support.structural import at_values, body, refused, same, split, start, with_position

SUM = """
program sums[N=8](X: f32[N + 2], K: f32[3]) -> Y: f32[N]:
    conv: Y[i] = sum[r < 3](X[i + r] * K[r])
"""


def test_what_overlaps_is_unfolded() -> None:
    ctx = start(SUM)
    before = ctx.func
    assert reindex(ctx, "conv", "X") == "conv.X.reindex"
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp X_reindex: f32[8, 3]
for i_conv_X_reindex, r_conv_X_reindex in grid(8, 3):
    conv.X.reindex: X_reindex[i, r] = X[i + r]  with i = i_conv_X_reindex, r = r_conv_X_reindex
for i, r in grid(8, 3):
    conv: Y[i] += X_reindex[i, r] * K[r]  init 0.0
"""
    )


def test_what_is_written_is_in_the_order_of_the_block() -> None:
    text = "program swapped[N=3, M=5](A: f32[N, M]) -> B: f32[M, N]:\n    swap: B[j, i] = A[i, j]\n"
    ctx = start(text)
    before = ctx.func
    assert reindex(ctx, "swap", "B") == "swap.B.reindex"
    same(before, ctx.func)
    assert "swap: B_reindex[j, i] = A[i, j]" in body(ctx.func)
    assert "swap.B.reindex: B[j, i] = B_reindex[j, i]" in body(ctx.func)


def test_every_side_of_a_convolution() -> None:
    ctx = start(CONV)
    before = ctx.func
    for buffer in ("Xp", "K", "Y"):
        reindex(ctx, "conv", buffer)
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert "conv: Y_reindex[h, w, o] += Xp_reindex[h, w, r, s, c] * K_reindex[o, r, s, c]" in body(ctx.func)


def test_under_a_tile_of_random_size() -> None:
    ctx = start(SUM)
    before = ctx.func
    i0, _ = split(ctx, "i", "t")
    copy = reindex(ctx, "conv", "X")
    compute_at(ctx, copy, i0)
    same(before, at_values(ctx.func, {"t": 3}))


def test_in_a_trace() -> None:
    sch = schedule(CONV)
    conv = sch.get_block("conv")
    sch.reindex(conv, "Xp")
    sch.reindex(conv, "Y")
    checked(sch)


def test_a_buffer_it_does_not_use() -> None:
    with refused("block `relu` neither reads nor writes `A`"):
        reindex(start(DENSE_RELU), "relu", "A")
    with pytest.raises(ScheduleError, match="hint: it uses `C` and `D`"):
        reindex(start(DENSE_RELU), "relu", "A")


def test_several_places() -> None:
    with refused("block `sum3` reads `B` at several places"):
        reindex(start(STENCIL), "sum3", "B")


def test_a_read_under_a_condition() -> None:
    with refused("block `pad` reads `X` at places that may be outside of it"):
        reindex(start(CONV), "pad", "X")


def test_a_buffer_computed_in_its_loops() -> None:
    ctx = start(RELU_PAD_MATMUL)
    compute_at(ctx, "relu", "i_pad")
    with refused("`B` is computed by `relu` inside loop `i_pad` of `pad`"):
        reindex(ctx, "pad", "B")


def test_a_reader_in_its_loops() -> None:
    ctx = start(RELU_PAD_MATMUL)
    compute_at(ctx, "relu", "i_pad")
    with refused("`pad` reads `B` inside loop `i_pad` of `relu`"):
        reindex(ctx, "relu", "B")


def test_another_writer() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "k")
    with refused("`C` is written by `dense.init` as well as by `dense`"):
        reindex(ctx, "dense", "C")


def test_two_names() -> None:
    ctx = start(TRANSPOSED)
    before = ctx.func
    reindex(ctx, "twice", "X")
    reindex(ctx, "three", "X")
    same(before, ctx.func)
    assert {b.name for b in ctx.func.temps} >= {"X_reindex", "X_reindex_1"}


def test_a_value_and_its_position() -> None:
    ctx = start(DENSE_RELU)
    with_position(ctx, "dense")
    with refused("block `dense` writes a value and its position"):
        reindex(ctx, "dense", "A")
