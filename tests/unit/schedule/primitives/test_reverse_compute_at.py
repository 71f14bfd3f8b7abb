from __future__ import annotations

import pytest

from metasched.ir.integers.evaluate import evaluate
from metasched.ir.query import find_block, loops_above
from metasched.schedule.context import Context
from metasched.schedule.primitives.cache_read import cache_read
from metasched.schedule.primitives.cache_write import cache_write
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.fuse import fuse
from metasched.schedule.primitives.parallel import parallel
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.rewrite.written_regions import completed_spans
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL, ROWS, STENCIL, TWO
from tests.support.structural import at_values, body, refused, same, split, start, vector


def tiled(*, ti: int | str = 4, tj: int | str = 2) -> Context:
    ctx = start(DENSE_RELU)
    split(ctx, "i", ti)
    split(ctx, "j", tj)
    split(ctx, "k", 3)
    reorder(ctx, "i_0", "j_0", "k_0", "i_1", "k_1", "j_1")
    return ctx


def test_under_an_imperfect_tile() -> None:
    ctx = tiled()
    before = start(DENSE_RELU).func
    reverse_compute_at(ctx, "relu", "j_0")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
for i_0, j_0 in grid(3, 5):
    for k_0, i_1, k_1, j_1 in grid(3, 4, 3, 2):
        dense: C[i, j] += A[i, k] * B[k, j]
            init 0.0  with i = i_0*4 + i_1, j = j_0*2 + j_1, k = k_0*3 + k_1
            if i < 11 and j < 9 and k < 7
    for i_of_relu, j_of_relu in grid(4, 2):
        relu: D[i, j] = max(C[i, j], 0.0)
            with i = i_0*4 + i_of_relu, j = j_0*2 + j_of_relu  if i < 11 and j < 9
"""
    )


def test_an_imperfect_tile_within_a_tile() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "i", 5)
    split(ctx, "i_1", 2)
    reverse_compute_at(ctx, "relu", "i_1_0")
    same(before, ctx.func)
    # The last of the small tiles is cut by the large one.
    assert "if i_1_0*2 + i_of_relu < 5 and i < 11" in body(ctx.func)


def test_above_an_imperfect_tile_within_a_tile() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "i", 5)
    split(ctx, "i_1", 2)
    reverse_compute_at(ctx, "relu", "i_0")
    same(before, ctx.func)
    assert "for i_of_relu, j_of_relu in grid(5, 9):" in body(ctx.func)


def test_under_a_fused_loop_and_over_one() -> None:
    ctx = tiled()
    before = start(DENSE_RELU).func
    reorder(ctx, "i_0", "j_0", "k_0", "k_1", "i_1", "j_1")
    fused = fuse(ctx, "i_0", "j_0")
    fuse(ctx, "i_1", "j_1")
    parallel(ctx, fused)
    reverse_compute_at(ctx, "relu", fused)
    same(before, ctx.func)


def test_two_readers_one_after_the_other() -> None:
    ctx = tiled()
    before = start(DENSE_RELU).func
    copy = cache_write(ctx, "dense", "local")
    reverse_compute_at(ctx, copy, "j_0")
    reverse_compute_at(ctx, "relu", "i_0")
    same(before, ctx.func)


def test_a_region_inside_that_of_another() -> None:
    text = TWO.replace("Y[i] = A[i] * 2", "Y[i] = X[i] * 2")
    ctx = start(text)
    before = ctx.func
    split(ctx, "i", 2)
    reverse_compute_at(ctx, "second", "i_0")
    reverse_compute_at(ctx, "both", "i_of_second")
    same(before, ctx.func)


def test_a_reduction_over_whole_rows() -> None:
    ctx = start(ROWS)
    before = ctx.func
    reverse_compute_at(ctx, "apart", "i")
    reverse_compute_at(ctx, "total", "i")
    reverse_compute_at(ctx, "out", "i")
    same(before, ctx.func)


@pytest.mark.parametrize(("t", "s"), [(4, 2), (5, 3), (11, 11), (1, 1), (3, 2)])
def test_with_free_tile_sizes_it_is_what_it_is_with_numbers(t: int, s: int) -> None:
    symbolic, concrete = tiled(ti="t", tj="s"), tiled(ti=t, tj=s)
    for ctx in (symbolic, concrete):
        split(ctx, "i_1", "s" if ctx is symbolic else s)
        reverse_compute_at(ctx, "relu", "j_0")
    values = {"t": t, "s": s}
    assert at_values(symbolic.func, values) == at_values(concrete.func, {})
    assert all(evaluate(c.cond, values) for c in symbolic.constraints)


def test_root_and_inline() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    reverse_compute_at(ctx, "pad", "root")
    assert ctx.func is before
    reverse_compute_at(ctx, "pad", "inline")
    same(before, ctx.func)


def test_a_reduction_loop_outside() -> None:
    ctx = tiled()
    with refused("the reduction of `dense` is not complete in loop `i_1`: it goes on in loop `k_0`"):
        reverse_compute_at(ctx, "relu", "i_1")


def test_strided_elements() -> None:
    ctx = start(DENSE_RELU)
    split(ctx, "i", 4)
    reorder(ctx, "i_1", "i_0", "j", "k")
    with refused(
        "what `dense` completes in an iteration of loop `i_1` is not a block of consecutive elements: "
        "loops `i_0` stride over it"
    ):
        reverse_compute_at(ctx, "relu", "i_1")


def test_a_fusion_of_inner_and_outer() -> None:
    ctx = start(RELU_PAD_MATMUL)
    fused = fuse(ctx, "i", "k")
    split(ctx, fused, 4)
    with refused(
        "what `relu` completes in an iteration of loop `i_k_0` is not a block of consecutive elements: "
        "the loops `i_k_0` and `i_k_1` are mixed by a fusion"
    ):
        reverse_compute_at(ctx, "pad", "i_k_0")


def test_recomputed_elements() -> None:
    text = """
program p[N=4, M=3](A: f32[N], B: f32[N, M]) -> C: f32[N, M]:
    a: X[i] = A[i] + 1
    b: Y[i] = X[i] * 2
    c: Z[i, j] = Y[i] * B[i, j]
    d: C[i, j] = Z[i, j] + X[i]
"""
    ctx = start(text)
    compute_at(ctx, "b", "j")
    with refused(
        "what `b` completes in an iteration of loop `j` is not a block of consecutive elements: every iteration of "
        "loop `j` computes the same elements"
    ):
        completed_spans(ctx, "reverse_compute_at", find_block(ctx.func, "b"), loops_above(ctx.func, "b")[:2])


def test_fused_loops_that_a_split_cuts_anywhere() -> None:
    ctx = start(RELU_PAD_MATMUL)
    split(ctx, "i", 2)
    fused = fuse(ctx, "i_1", "k")
    split(ctx, fused, 4)
    with refused(
        "what `relu` completes in an iteration of loop `i_0` is not a block of consecutive elements: "
        "the values of `i_1_k_0` and `i_1_k_1` are not independent"
    ):
        reverse_compute_at(ctx, "pad", "i_0")


def test_the_order_inside_does_not_matter_where_a_dimension_is_whole() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    split(ctx, "k", 4)
    reorder(ctx, "i", "k_1", "k_0")
    reverse_compute_at(ctx, "pad", "i")
    same(before, ctx.func)


def test_transposed_reads() -> None:
    text = """
program p[N=4](A: f32[N, N]) -> C: f32[N, N]:
    a: X[i, j] = A[i, j] + 1
    c: C[i, j] = X[i, j] + X[j, i]
"""
    with refused("`c` reads elements of `X` that other iterations of loop `i` complete"):
        reverse_compute_at(start(text), "c", "i")


def test_two_sources_that_complete_different_elements() -> None:
    text = """
program p[N=4](A: f32[N, N]) -> C: f32[N, N]:
    a: X[i, j] = A[i, j] + 1
    b: Y[i, j] = X[i, j] * 2
    c: C[i, j] = X[i, j] + Y[j, i]
"""
    ctx = start(text)
    reverse_compute_at(ctx, "b", "i")
    with refused("what `c` reads is complete for different elements in loop `i`"):
        reverse_compute_at(ctx, "c", "i")


def test_neighbouring_elements() -> None:
    with refused("`sum3` reads elements of `B` that other iterations of loop `i` complete"):
        reverse_compute_at(start(STENCIL), "sum3", "i")


def test_a_reduction_over_part_of_a_dimension() -> None:
    ctx = start(ROWS)
    with refused("`total` reduces over `k`, of which an iteration of loop `k_apart` completes a part"):
        reverse_compute_at(ctx, "total", "k_apart")


def test_nothing_it_reads_is_there() -> None:
    with refused("nothing that `pad` reads is computed under loop `i_matmul`"):
        reverse_compute_at(start(RELU_PAD_MATMUL), "pad", "i_matmul")


def test_its_own_loop() -> None:
    with refused("block `both` is already under loop `i_both`"):
        reverse_compute_at(start(TWO), "both", "i_both")


def test_what_else_it_reads_comes_later() -> None:
    with refused("`second`, which `both` reads, is computed after loop `i`"):
        reverse_compute_at(start(TWO), "both", "i")


def test_a_part_of_a_copy_that_is_a_part() -> None:
    ctx = start("program late(A: f32[2, 7]) -> B: f32[2, 3]:\n    B[n, i] = A[n, i + 4]\n")
    first = cache_read(ctx, "B", "A")
    compute_at(ctx, first, "n")
    second = cache_read(ctx, first, "A")
    compute_at(ctx, second, "n")
    row = loops_above(ctx.func, second)[1].var
    with refused(f"`{first}` and `{second}` are computed in part, and loops over all of `ax1` would read the rest"):
        reverse_compute_at(ctx, first, row)


def test_a_vector_loop() -> None:
    ctx = start(RELU_PAD_MATMUL)
    vector(ctx, "k")
    with refused("loop `k` is vectorized"):
        reverse_compute_at(ctx, "pad", "k")


def test_a_decomposed_reduction() -> None:
    ctx = start(ROWS)
    decompose_reduction(ctx, "total", "k_total")
    with refused("`T` is written by `total.init` as well as by `total`"):
        reverse_compute_at(ctx, "total", "i_apart")


def test_more_than_what_is_computed() -> None:
    ctx = start(
        """
program padded[N=4](A: f32[N]) -> C: f32[N + 2]:
    twice: B[i] = A[i] * 2
    pad:   C[i < N + 2] = B[i] if i < N else 0
"""
    )
    with refused("`pad` runs over more of `i` than `twice` computes"):
        reverse_compute_at(ctx, "pad", "i")


@pytest.mark.parametrize(("loop", "size"), [("i_0_0", 1), ("i_0_1", 1), ("i_0_0", 2)])
def test_tiles_of_tiles_by_free_sizes_are_those_by_numbers(loop: str, size: int) -> None:
    """Where the size is 1, the guard of the outer loops says the same as that of all."""
    numbers, free = start(DENSE_RELU), start(DENSE_RELU)
    for ctx, inner in ((numbers, size), (free, "t")):
        split(ctx, "i", inner)
        split(ctx, "i_0", 1)
        reverse_compute_at(ctx, "relu", loop)
    assert at_values(free.func, {"t": size}) == at_values(numbers.func, {})
    same(start(DENSE_RELU).func, numbers.func)
