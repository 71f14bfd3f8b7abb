from __future__ import annotations

from metasched.ir.integers.evaluate import evaluate
from metasched.schedule.context import Context
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.fuse import fuse
from metasched.schedule.primitives.parallel import parallel
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.rfactor import rfactor
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS, STENCIL, TWO
from tests.support.structural import at_values, body, refused, same, split, start, vector


def test_neighbouring_elements_are_computed_by_each_tile() -> None:
    ctx = start(STENCIL)
    before = ctx.func
    split(ctx, "i_sum3", 4)
    compute_at(ctx, "double", "i_sum3_0")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp B: f32[17]
for i_sum3_0 in 5:
    for i_double in 6:
        double: B[i] = A[i] * 2.0  with i = i_sum3_0*4 - 1 + i_double  if i >= 0 and i < 17
    for i_sum3_1 in 4:
        sum3: C[i] = (B[i - 1] if i >= 1 else 0.0) + B[i] + (B[i + 1] if i < 16 else 0.0)
            with i = i_sum3_0*4 + i_sum3_1  if i < 17
"""
    )


def test_the_region_of_a_convolution() -> None:
    ctx = start(CONV)
    before = ctx.func
    split(ctx, "h_conv", 2)
    compute_at(ctx, "pad", "h_conv_0")
    same(before, ctx.func)
    # Columns are clipped to the buffer, rows are guarded: their place follows the loop outside.
    assert "for h_pad, w_pad, c_pad in grid(4, 7, 2):" in body(ctx.func)
    compute_at(ctx, "pad", "s")
    same(before, ctx.func)


def test_under_the_reduction_loop_of_the_reader() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    split(ctx, "k_matmul", 4)
    reorder(ctx, "k_matmul_0", "i_matmul", "j", "k_matmul_1")
    compute_at(ctx, "pad", "k_matmul_0")
    compute_at(ctx, "relu", "k_matmul_0")
    same(before, ctx.func)


def test_a_reduction_keeps_all_its_iterations() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "i_relu", 3)
    compute_at(ctx, "dense", "i_relu_0")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
for i_relu_0 in 4:
    for i_dense, j_dense, k_dense in grid(3, 9, 7):
        dense: C[i, j] += A[i, k] * B[k, j]
            init 0.0  with i = i_relu_0*3 + i_dense, j = j_dense, k = k_dense  if i < 11
    for i_relu_1, j_relu in grid(3, 9):
        relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu_0*3 + i_relu_1, j = j_relu  if i < 11
"""
    )


def test_two_readers_under_one_loop() -> None:
    ctx = start(ROWS)
    before = ctx.func
    reverse_compute_at(ctx, "out", "i_total")
    compute_at(ctx, "apart", "i_total")
    compute_at(ctx, "most", "i_total")
    same(before, ctx.func)
    assert body(ctx.func).count("for i_total in 6:") == 1


def test_under_a_fused_loop() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "i_relu", 4)
    split(ctx, "j_relu", 4)
    reorder(ctx, "i_relu_0", "j_relu_0", "i_relu_1", "j_relu_1")
    fused = fuse(ctx, "i_relu_0", "j_relu_0")
    parallel(ctx, fused)
    compute_at(ctx, "dense", fused)
    same(before, ctx.func)
    assert "with i = (i_relu_0_j_relu_0 // 3)*4 + i_dense" in body(ctx.func)


def test_a_guard_that_belongs_to_the_block_moves_with_it() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    _, k1 = split(ctx, "k", 3)
    rfactor(ctx, k1)
    split(ctx, "k_0", 2)
    compute_at(ctx, "dense.rf", "i_1")
    same(before, ctx.func)
    assert "k_0*3 + k_1" in body(ctx.func)


def test_with_free_tile_sizes_it_is_what_it_is_with_numbers() -> None:
    def steps(t: int | str, s: int | str) -> Context:
        ctx = start(STENCIL)
        split(ctx, "i_sum3", t)
        split(ctx, "i_sum3_1", s)
        compute_at(ctx, "double", "i_sum3_1_0")
        return ctx

    symbolic = steps("t", "s")
    for t, s in [(4, 2), (5, 3), (17, 17), (1, 1), (3, 2)]:
        concrete = steps(t, s)
        values = {"t": t, "s": s}
        assert at_values(symbolic.func, values) == at_values(concrete.func, {})
        assert all(evaluate(c.cond, values) for c in symbolic.constraints)


def test_a_region_whose_size_the_loops_outside_decide_is_whole() -> None:
    text = """
program p[N=4](A: f32[N*N]) -> C: f32[N, N]:
    a: X[i] = A[i] + 1
    c: C[i, j] = X[i*j]
"""
    ctx = start(text)
    before = ctx.func
    compute_at(ctx, "a", "i_c")
    same(before, ctx.func)
    assert "for i_a in 16:" in body(ctx.func)


def test_root_and_inline() -> None:
    ctx = start(STENCIL)
    before = ctx.func
    compute_at(ctx, "double", "root")
    assert ctx.func is before
    compute_at(ctx, "double", "inline")
    same(before, ctx.func)
    assert not ctx.func.temps


def test_an_output() -> None:
    with refused("block `relu` writes the output `D`"):
        compute_at(start(DENSE_RELU), "relu", "i")


def test_a_reader_elsewhere() -> None:
    ctx = start(ROWS)
    with refused("`out`, which reads `apart`, is not under loop `i_total`"):
        compute_at(ctx, "apart", "i_total")


def test_its_own_loop() -> None:
    with refused("block `dense` is already under loop `j`"):
        compute_at(start(DENSE_RELU), "dense", "j")


def test_a_vector_loop() -> None:
    ctx = start(DENSE_RELU)
    vector(ctx, "i_relu")
    with refused("loop `i_relu` is vectorized"):
        compute_at(ctx, "dense", "j_relu")


def test_a_decomposed_reduction() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "k")
    with refused("`C` is written by `dense.init` as well as by `dense`"):
        compute_at(ctx, "dense", "i_relu")


def test_a_producer_inside_its_loops() -> None:
    ctx = start(RELU_PAD_MATMUL)
    compute_at(ctx, "relu", "i_pad")
    with refused("block `relu`, which `pad` reads, is computed inside loop `i_pad` of `pad`"):
        compute_at(ctx, "pad", "i_matmul")


def test_a_producer_that_is_ready_only_further_in() -> None:
    text = """
program p[N=4](A: f32[N]) -> C: f32[N]:
    a: X[i] = A[i] + 1
    b: Y[i] = X[i] * 2
    c: C[i] = X[i] + Y[i]
"""
    ctx = start(text)
    split(ctx, "i_c", 2)
    reverse_compute_at(ctx, "b", "i")
    with refused("block `a`, which `b` reads, is computed inside loop `i` of `b`"):
        compute_at(ctx, "b", "i_c_0")


def test_no_such_loop() -> None:
    with refused("loop `nowhere` no longer exists"):
        compute_at(start(TWO), "first", "nowhere")
