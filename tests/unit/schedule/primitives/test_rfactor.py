from __future__ import annotations

import pytest

from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.schedule.primitives.add_unit_loop import add_unit_loop
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.fuse import fuse
from metasched.schedule.primitives.parallel import parallel
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.rfactor import rfactor
from metasched.schedule.primitives.split import split as split_by
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS
from tests.support.structural import at_values, body, refused, same, split, start


def test_the_outer_part_of_an_imperfectly_split_reduction() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    k0, _ = split(ctx, "k_matmul", 4)
    assert rfactor(ctx, k0) == "matmul.rf"
    same(before, ctx.func)
    assert (
        "\n".join(body(ctx.func).splitlines()[8:])
        == """\
for i_matmul, j, k_matmul_0, k_matmul_1 in grid(4, 3, 3, 4):
    matmul.rf: E_rf[k_matmul_0, i, j] += C[i, k_matmul_0*4 + k_matmul_1] * D[k_matmul_0*4 + k_matmul_1, j]
        init 0.0  with i = i_matmul  if k_matmul_0*4 + k_matmul_1 < 11
for i_matmul_1, j_1, k_matmul_0_1 in grid(4, 3, 3):
    matmul: E[i, j] += E_rf[k_matmul_0, i, j]
        init 0.0  with i = i_matmul_1, j = j_1, k_matmul_0 = k_matmul_0_1"""
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_inner_part_in_any_place(axis: int) -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    k0, k1 = split(ctx, "k", 4)
    reorder(ctx, k1, "i", k0, "j")
    rfactor(ctx, k1, axis)
    parallel(ctx, k1)
    same(before, ctx.func)
    shape = ["11", "9"]
    shape.insert(axis, "4")
    assert f"temp C_rf: f32[{', '.join(shape)}]" in body(ctx.func)


def test_parts_without_a_single_term_are_empty_sums() -> None:
    ctx = start(RELU_PAD_MATMUL, K=9, L=9)
    before = ctx.func
    _, k1, _ = split(ctx, "k_matmul", 4, 4)
    rfactor(ctx, k1)
    same(before, ctx.func)


def test_a_whole_reduction_leaves_plain_products() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    rfactor(ctx, "k")
    same(before, ctx.func)
    assert "dense.rf: C_rf[k, i, j] = A[i, k] * B[k, j]\n" in body(ctx.func)


def test_one_of_several_reductions_and_a_maximum() -> None:
    ctx = start(CONV)
    before = ctx.func
    rfactor(ctx, "s", 2)
    same(before, ctx.func)
    ctx = start(ROWS)
    before = ctx.func
    k0, _ = split(ctx, "k", 2)
    rfactor(ctx, k0)
    same(before, ctx.func)
    assert "most.rf: M_rf[k_0, i] max= A[i, k_0*2 + k_1]  init -inf" in body(ctx.func)


def test_fused_reductions() -> None:
    ctx = start(CONV)
    before = ctx.func
    fused = fuse(ctx, "r", "s")
    rfactor(ctx, fused)
    same(before, ctx.func)


def test_readers_in_its_loops_come_after_it() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    reverse_compute_at(ctx, "relu", "i")
    k0, _ = split(ctx, "k", 2)
    rfactor(ctx, k0)
    same(before, ctx.func)
    assert body(ctx.func).count("for i in 11:") == 1


def test_producers_in_its_loops_stay() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    k0, _ = split(ctx, "k_matmul", 4)
    compute_at(ctx, "pad", k0)
    rfactor(ctx, k0)
    same(before, ctx.func)


def test_with_free_tile_sizes_it_is_what_it_is_with_numbers() -> None:
    symbolic = start(RELU_PAD_MATMUL)
    rfactor(symbolic, split(symbolic, "k_matmul", "t")[0])
    concrete = start(RELU_PAD_MATMUL)
    rfactor(concrete, split(concrete, "k_matmul", 4)[0])
    assert at_values(symbolic.func, {"t": 4}) == at_values(concrete.func, {})


def test_a_spatial_loop() -> None:
    with refused("no reduction runs over loop `i`"):
        rfactor(start(DENSE_RELU), "i")


def test_a_loop_over_elements_and_reduction() -> None:
    ctx = start(DENSE_RELU)
    with refused("loop `j_k` is over both the elements and the reduction of `dense`"):
        rfactor(ctx, fuse(ctx, "j", "k"))


def test_after_decompose_reduction() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "k")
    with refused("the init of `dense` is a block of its own"):
        rfactor(ctx, "k")


def test_an_axis_out_of_range() -> None:
    with refused("axis 3 is not between 0 and 2"):
        rfactor(start(DENSE_RELU), "k", 3)


def test_a_loop_of_which_a_guard_leaves_iterations_out() -> None:
    ctx = start(DENSE_RELU)
    fused = fuse(ctx, *split(ctx, "k", 2))
    with refused(f"iterations of loop `{fused}` are left out by a guard of `dense`"):
        rfactor(ctx, fused)


def test_the_end_of_another_loop_is_left_out() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    k_0, k_1 = split(ctx, "k", 3)
    fused = fuse(ctx, *split(ctx, k_1, 2))
    rfactor(ctx, k_0)
    same(before, ctx.func)
    partial = query.find_block(ctx.func, "dense.rf")
    assert {it.name: it.extent for it in partial.iters}[fused] == const(3)


def test_what_a_guard_leaves_out_of_another_loop_of_three_parts_is_no_obstacle() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    k_0, k_1 = split(ctx, "k", 3)
    fuse(ctx, *split_by(ctx, k_1, (const(1), None, const(2))))
    rfactor(ctx, k_0)
    same(before, ctx.func)


def test_a_loop_whose_guard_is_about_a_unit_loop_too() -> None:
    ctx = start(DENSE_RELU)
    unit_0, unit_1 = split(ctx, add_unit_loop(ctx, "k"), 2)
    reorder(ctx, unit_0, "k", unit_1)
    fused = fuse(ctx, "k", unit_1)
    with refused(f"iterations of loop `{fused}` are left out by a guard of `dense`"):
        rfactor(ctx, fused)


def test_a_fused_loop_of_perfect_parts() -> None:
    ctx = start(DENSE_RELU, K=8)
    before = ctx.func
    rfactor(ctx, fuse(ctx, *split(ctx, "k", 2)))
    same(before, ctx.func)
