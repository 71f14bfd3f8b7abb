from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.ir.integers.affine import as_int, const
from metasched.ir.nodes import For, Var
from metasched.ir.query import find_loop, loops_above, replace_stmt
from metasched.ir.validate import InvalidProgram, validate
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.fuse import fuse
from metasched.schedule.primitives.loop_partition import loop_partition
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.store_at import store_at
from metasched.schedule.primitives.unroll import unroll
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, loops_of, schedule
from tests.support.structural import at_values, body, refused, same, split, start, vector

CONV = """
program conv[N=10](A: f32[N], W: f32[3]) -> C: f32[N]:
    pad:  P[i < N + 2] = A[i - 1] if i >= 1 and i < N + 1 else 0
    conv: C[i] = sum[r](P[i + r] * W[r])
"""
BLUR = """
program blur[H=10](X: f32[H + 2]) -> Y: f32[H]:
    rows: B[y] = X[y] * 2
    out:  Y[y] = B[y + 0] + B[y + 1] + B[y + 2]
"""
TARGET = Target("x", frozenset({"avx512f"}), 1, 1 << 15, 1 << 20, 1 << 25)


def test_full_tiles_and_the_rest() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "i_relu", 4)
    compute_at(ctx, "dense", "i_relu_0")
    assert loop_partition(ctx, "i_relu_0") == ("i_relu_0_0", "i_relu_0_1")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
temp C_tail: f32[11, 9]
for i_relu_0_0 in 2:
    for i_dense, j_dense, k_dense in grid(4, 9, 7):
        dense: C[i, j] += A[i, k] * B[k, j]
            init 0.0  with i = i_dense + i_relu_0_0*4, j = j_dense, k = k_dense
    for i_relu_1, j_relu in grid(4, 9):
        relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu_0_0*4 + i_relu_1, j = j_relu
for i_relu_0_1 in 1:
    for i_dense_tail, j_dense_tail, k_dense_tail in grid(4, 9, 7):
        dense.tail: C_tail[i, j] += A[i, k] * B[k, j]
            init 0.0  with i = i_dense_tail + i_relu_0_1*4 + 8, j = j_dense_tail, k = k_dense_tail
            if i < 11
    for i_relu_1_tail, j_relu_tail in grid(4, 9):
        relu.tail: D[i, j] = max(C_tail[i, j], 0.0)
            with i = i_relu_0_1*4 + i_relu_1_tail + 8, j = j_relu_tail  if i < 11
"""
    )


def test_the_inside_of_padding_has_no_condition_in_the_code() -> None:
    ctx = start(CONV)
    before = ctx.func
    compute_inline(ctx, "pad")
    unroll(ctx, "r")
    loop_partition(ctx, "i_conv")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    text = print_kernel(lower(ctx.func, TARGET))
    assert (
        text[text.index("    for i_conv_1") : text.index("    C[9]")]
        == """\
    for i_conv_1 in range(8):
        C.acc_1[0] = 0.0
        unrolled r in range(3):
            C.acc_1[0] = C.acc_1[0] + A[i_conv_1 + r] * W[r]
        C[i_conv_1 + 1] = C.acc_1[0]
    C.acc_2[0] = 0.0
    unrolled r_tail in range(3):
        C.acc_2[0] = C.acc_2[0] + (A[r_tail + 8] if r_tail + 9 < 11 else 0.0) * W[r_tail]
"""
    )


def test_a_reduction_goes_on_from_its_first_part() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    reorder(ctx, "k", "i", "j")
    loop_partition(ctx, "k", (const(1), const(3), const(5)))
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    found = [line.strip() for line in body(ctx.func).splitlines() if "dense" in line]
    assert [line.split(":")[0] for line in found] == ["dense.head", "dense", "dense.middle", "dense.tail"]
    assert ["init" in line for line in found] == [True, False, False, False]


def test_a_reduction_whose_init_is_a_block() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    decompose_reduction(ctx, "dense", "k")
    loop_partition(ctx, "i", (const(4),))
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert "dense.init.tail" in body(ctx.func)


def test_the_inner_part_of_a_reduction() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    split(ctx, "k", 4)
    loop_partition(ctx, "k_1", (const(2),))
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_values_and_their_positions() -> None:
    text = """
    program best[N=6, K=5](X: f32[N, K]) -> Y: f32[N]:
        best: V[i], P[i] = argmax[k](X[i, k])
        out: Y[i] = V[i] + f32(P[i])
    """
    for inside, loop in (("", "i"), ("", "k"), ("i_out", "i_out")):
        ctx = start(text)
        before = ctx.func
        if inside:
            compute_at(ctx, "best", inside)
        loop_partition(ctx, loop, (const(1), const(3)))
        same(before, ctx.func)
        native_agrees(before, ctx.func)


def test_parts_of_parts() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    first, second = loop_partition(ctx, "i", (const(4),))
    loop_partition(ctx, second, (const(2),))
    loop_partition(ctx, first, (const(1), const(3)))
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_parts_scheduled_apart() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    loop_partition(ctx, "i_relu", (const(8),))
    split(ctx, "i_relu_0", 4)
    vector(ctx, "j_relu")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert "vectorized(4) j_relu in 9" in body(ctx.func)
    assert "vectorized(4) j_relu_tail" not in body(ctx.func)


def test_free_points() -> None:
    ctx = start(DENSE_RELU)
    ctx.free.add("t")
    loop_partition(ctx, "i", (Var("t"),))
    assert [c.reason for c in ctx.constraints] == [
        "loop_partition: the points of loop `i` are not inside its range of 11, each at least the last"
    ]
    same(start(DENSE_RELU).func, at_values(ctx.func, {"t": 3}))


def test_a_rolling_buffer_inside() -> None:
    ctx = start(BLUR)
    before = ctx.func
    split(ctx, "y_out", 5)
    compute_at(ctx, "rows", "y_out_1")
    store_at(ctx, "rows", "y_out_0")
    loop_partition(ctx, "y_out_0", (const(1),))
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert [(b.name, b.roll.loop) for b in ctx.func.temps if b.roll is not None] == [
        ("B", "y_out_0_0"),
        ("B_tail", "y_out_0_1"),
    ]


def test_its_trace_replays() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    i0, _ = sch.split(i, [None, 4])
    main, rest = sch.loop_partition(i0)
    sch.parallel(main)
    checked(sch)
    given = schedule()
    given.loop_partition(loops_of(given, "dense")[0], [2, 5])
    checked(given)
    assert str(rest) in str(sch.trace)


# --- what is refused -------------------------------------------------------------------------------------


def test_a_loop_that_does_not_run_serially() -> None:
    ctx = start(DENSE_RELU)
    unroll(ctx, "i")
    with refused("loop `i` is unrolled"):
        loop_partition(ctx, "i", (const(3),))


@pytest.mark.parametrize("points", [(5, 3), (12,), (-1,)])
def test_points(points: tuple[int, ...]) -> None:
    with refused("the points of loop `i` are not inside its range of 11, each at least the last"):
        loop_partition(start(DENSE_RELU), "i", tuple(const(p) for p in points))


@pytest.mark.parametrize("points", [(0,), (11,), (4, 4), (0, 11), (0, 0)])
def test_parts_of_elements_may_be_empty(points: tuple[int, ...]) -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    loop_partition(ctx, "i", tuple(const(p) for p in points))
    same(before, ctx.func)
    native_agrees(before, ctx.func)


@pytest.mark.parametrize("points", [(0,), (4, 4)])
def test_parts_of_a_reduction_may_not(points: tuple[int, ...]) -> None:
    """The first part writes what it starts from."""
    ctx = start(DENSE_RELU)
    extent = next(as_int(x.extent) for x in loops_above(ctx.func, "dense") if x.var == "k")
    with refused(f"the points of loop `k` are not inside its range of {extent}, each more than the last"):
        loop_partition(ctx, "k", tuple(const(p) for p in points))


def test_a_loop_over_elements_and_a_reduction() -> None:
    ctx = start(DENSE_RELU)
    fused = fuse(ctx, "j", "k")
    with refused(f"loop `{fused}` is over both the elements and the reduction of `dense`"):
        loop_partition(ctx, fused, (const(3),))


def test_a_block_that_computes_the_same_in_every_iteration() -> None:
    ctx = start(DENSE_RELU)
    nest = find_loop(ctx.func, "i")
    ctx.func = replace_stmt(ctx.func, nest, For("again", const(3), nest))
    validate(ctx.func)
    with refused("every iteration of loop `again` computes the same in block `dense`"):
        loop_partition(ctx, "again", (const(1),))


def test_no_condition() -> None:
    with refused("no condition inside loop `i` changes along it"):
        loop_partition(start(DENSE_RELU), "i")


def test_a_window_that_rolls() -> None:
    text = "program f[N=4](A: f32[N + 2]) -> C: f32[N]:\n    b: B[i < N + 2] = A[i]\n"
    ctx = start(f"{text}    c: C[i] = B[i + 0] + B[i + 1] + B[i + 2]\n")
    compute_at(ctx, "b", "i_c")
    store_at(ctx, "b", "root")
    own = loops_above(ctx.func, "b")[-1].var
    with refused("`B` is a window that rolls"):
        loop_partition(ctx, own, (const(1),))


def test_conditions_that_depend_on_tile_sizes() -> None:
    ctx = start(DENSE_RELU)
    split(ctx, "i", "t")
    with refused("where conditions change along loop `i_0` depends on tile sizes"):
        loop_partition(ctx, "i_0")


def test_parts_that_overlap_or_leave_something_out_are_no_program() -> None:
    ctx = start("program copy(A: f32[8]) -> C: f32[8]:\n    C[i] = A[i]\n")
    loop_partition(ctx, "i", (const(3),))
    tail = find_loop(ctx.func, "i_1")
    for extent, message in ((4, "does not run"), (5, None)):
        func = replace_stmt(ctx.func, tail, replace(tail, extent=const(extent)))
        if message is None:
            validate(func)
        else:
            with pytest.raises(InvalidProgram, match=message):
                validate(func)
    head = find_loop(ctx.func, "i_0")
    with pytest.raises(InvalidProgram, match=r"`C` and `C\.tail` both write `C`"):
        validate(replace_stmt(ctx.func, head, replace(head, extent=const(4))))
