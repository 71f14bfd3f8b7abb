from __future__ import annotations

import pytest

from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.integers.evaluate import evaluate
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_padding import decompose_padding
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.loop_partition import loop_partition
from metasched.schedule.primitives.parallel import parallel
from metasched.schedule.primitives.reindex import reindex
from metasched.schedule.primitives.rfactor import rfactor
from metasched.schedule.primitives.transform_block_layout import transform_block_layout
from metasched.schedule.primitives.transform_layout import transform_layout
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU, ROWS
from tests.support.schedules import checked, lines, schedule
from tests.support.structural import at_values, body, refused, same, split, start, with_position


def test_a_convolution_is_a_product_of_matrices() -> None:
    ctx = start(CONV)
    before = ctx.func
    x, k, _ = (reindex(ctx, "conv", buffer) for buffer in ("Xp", "K", "Y"))
    transform_block_layout(ctx, x, "h, w, r, s, c -> h*5 + w, (r*3 + s)*2 + c")
    transform_block_layout(ctx, k, "o, r, s, c -> (r*3 + s)*2 + c, o")
    loops = transform_block_layout(ctx, "conv", "h, w, o, r, s, c -> h*5 + w, o, (r*3 + s)*2 + c")
    assert loops == ("h_w_conv", "o_conv", "r_s_c_conv")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert "conv: Y_reindex[h_w, o] += Xp_reindex[h_w, r_s_c] * K_reindex[r_s_c, o]" in body(ctx.func)
    assert "conv.Y.reindex: Y[h, w, o] = Y_reindex[h*5 + w, o]" in body(ctx.func)


@pytest.mark.parametrize("size", [1, 4, 5, 64])
def test_tiles_of_a_size_that_need_not_divide(size: int) -> None:
    """The loops and names are those of any size, so that addresses of random variables are."""
    ctx = start(DENSE_RELU)
    before = ctx.func
    copy = reindex(ctx, "dense", "B")
    loops = transform_block_layout(ctx, copy, "j, k -> j//t, k, j%t", const(size))
    assert loops == ("j_0", "k_of_dense_B_reindex", "j_1")
    assert f"temp B_reindex: f32[9, 7]  layout j, k -> {'j' if size == 1 else f'j // {size}'}, k" in body(ctx.func)
    transform_block_layout(ctx, "dense", "i, j, k -> i, j, k//t, k%t", const(size))
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_tiles_of_a_reduction_that_do_not_fit_are_guarded() -> None:
    ctx = start(DENSE_RELU, N=12)
    before = ctx.func
    loops = transform_block_layout(ctx, "dense", "i, j, k -> i//4, j, k//2, i%4, k%2")
    assert loops == ("i_0", "j_dense", "i_1", "k_0", "k_1")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[3, 9, 4]
for i_0, j_dense, i_1, k_0, k_1 in grid(3, 9, 4, 4, 2):
    dense: C[i_0, j, i_1] += A[i_0*4 + i_1, k_0*2 + k_1] * B[k_0*2 + k_1, j]
        init 0.0  with j = j_dense  if k_0*2 + k_1 < 7
for i_relu, j_relu in grid(12, 9):
    relu: D[i, j] = max(C[i // 4, j, i % 4], 0.0)  with i = i_relu, j = j_relu
"""
    )


def test_only_the_reduction_of_an_output() -> None:
    ctx = start("program total[N=10](A: f32[N, N]) -> S: f32[N]:\n    sum: S[i] = sum[j](A[i, j])\n")
    before = ctx.func
    transform_block_layout(ctx, "sum", "i, j -> i, j%4, j//4")
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_another_order_of_an_output() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    assert transform_block_layout(ctx, "relu", "x, y -> y, x") == ("j_of_relu", "i_of_relu")
    same(before, ctx.func)
    assert "relu: D[i, j] = max(C[i, j], 0.0)" in body(ctx.func)


def test_then_scheduled_further() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_block_layout(ctx, "dense", "i, j, k -> i*9 + j, k")
    split(ctx, "i_j", 8)
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_extents_that_are_random() -> None:
    ctx = start(DENSE_RELU, K=16)
    before = ctx.func
    _, k1 = split(ctx, "k", "t")
    rf = rfactor(ctx, k1)
    copy = reindex(ctx, "dense", "C_rf")
    transform_block_layout(ctx, copy, "i, j, k -> k//4, j, i, k%4")
    assert rf == "dense.rf"
    (fits,) = [c.cond for c in ctx.constraints if "unwritten" in c.reason]
    assert [bool(evaluate(fits, {"t": t})) for t in (1, 4, 5, 8)] == [False, True, False, True]
    for t in (4, 8):
        same(before, at_values(ctx.func, {"t": t}))
        native_agrees(before, at_values(ctx.func, {"t": t}))


def test_a_function_in_python() -> None:
    sch = schedule()
    sch.transform_block_layout(sch.get_block("dense"), lambda i, j, k: (i * 9 + j, k))
    checked(sch)
    assert lines(sch.trace)[-1] == 'i_j, k_dense = transform_block_layout(dense, "i, j, k -> i*9 + j, k")'


def test_an_output_of_other_dimensions() -> None:
    with refused("block `relu` writes the output `D`, whose dimensions are the caller's"):
        transform_block_layout(start(DENSE_RELU), "relu", "i, j -> i*9 + j")


def test_tiles_that_leave_elements_unwritten() -> None:
    with refused('"i, j, k -> i//4, j, i%4, k" leaves elements of `C` unwritten'):
        transform_block_layout(start(DENSE_RELU), "dense", "i, j, k -> i//4, j, i%4, k")


def test_mixed_kinds() -> None:
    with refused('"i, j, k -> i, j*7 + k" mixes elements and reduction of `dense`'):
        transform_block_layout(start(DENSE_RELU), "dense", "i, j, k -> i, j*7 + k")


def test_another_number_of_variables() -> None:
    with refused('the index map "i, j -> j, i" has 2 indices on its left, and block `dense` has 3'):
        transform_block_layout(start(DENSE_RELU), "dense", "i, j -> j, i")


def test_instances_in_one_place() -> None:
    with refused('"i, j, k -> i, j, k//2" does not keep the instances of `dense` apart: `k` does not follow from it'):
        transform_block_layout(start(DENSE_RELU), "dense", "i, j, k -> i, j, k//2")


def test_gaps() -> None:
    with refused('"i, j, k -> i, j*2, k" leaves gaps between the instances of `dense`'):
        transform_block_layout(start(DENSE_RELU), "dense", "i, j, k -> i, j*2, k")


def test_gaps_in_a_variable() -> None:
    ctx = start("program total[N=5](A: f32[N, N]) -> S: f32[1]:\n    sum: S[o < 1] = sum[i < N, j < N](A[i, j])\n")
    for text in ("o, i, j -> o, i*6 + j", "o, i, j -> o, i%3*2 + i//3, j"):
        with refused(f'"{text}" leaves gaps between the instances of `sum`'):
            transform_block_layout(ctx, "sum", text)


def test_a_negative_index() -> None:
    with refused('"i, j -> i - 1, j" leaves the domain of `relu`: an index may be negative'):
        transform_block_layout(start(DENSE_RELU), "relu", "i, j -> i - 1, j")


def test_loops_that_were_split() -> None:
    ctx = start(DENSE_RELU)
    split(ctx, "i", 4)
    with refused("the loops of block `dense` are not its iteration variables any more"):
        transform_block_layout(ctx, "dense", "i, j, k -> j, i, k")


def test_a_part_of_the_loops() -> None:
    ctx = start("program low[N=6](A: f32[N]) -> L: f32[N]:\n    low: L[i] = A[i] if i < 4 else 0\n")
    decompose_padding(ctx, "low", "i")
    with refused("the loops of block `low` are not its iteration variables any more"):
        transform_block_layout(ctx, "low", "i -> i")


def test_loops_around_another_block() -> None:
    ctx = start(ROWS)
    compute_at(ctx, "most", "i_apart")
    with refused("loop `i_apart` of block `apart` is around other blocks as well"):
        transform_block_layout(ctx, "apart", "i, k -> k, i")


def test_a_parallel_loop() -> None:
    ctx = start(DENSE_RELU)
    parallel(ctx, "i")
    with refused("loop `i` is parallel"):
        transform_block_layout(ctx, "dense", "i, j, k -> j, i, k")


def test_another_writer() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "i")
    with refused("`C` is written by `dense.init` as well as by `dense`"):
        transform_block_layout(ctx, "dense", "i, j, k -> i*9 + j, k")


def test_a_part_of_a_result() -> None:
    """One that has all iterations has untransformed loops; the other has none."""
    ctx = start(DENSE_RELU)
    loop_partition(ctx, "i", (query.find_loop(ctx.func, "i").extent,))
    with refused("blocks `dense` and `dense.tail` write parts of one result"):
        transform_block_layout(ctx, "dense", "i, j, k -> j, i, k")


def test_a_layout_in_memory() -> None:
    ctx = start(DENSE_RELU)
    transform_layout(ctx, "dense", "i, j -> j, i")
    with refused("`C` has a layout in memory already"):
        transform_block_layout(ctx, "dense", "i, j, k -> i*9 + j, k")


@pytest.mark.parametrize("text", ["i, j, k -> k, j, i", "i, j, k -> j, 0, i, k", "i, j, k -> i, j//3, k//2, j%3, k%2"])
def test_what_is_computed_stays(text: str) -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_block_layout(ctx, "dense", text)
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_a_value_and_its_position() -> None:
    ctx = start(DENSE_RELU)
    with_position(ctx, "dense")
    with refused("block `dense` finds a position, and which of equal ones comes first would change"):
        transform_block_layout(ctx, "dense", "i, j, k -> j, i, k")
