from __future__ import annotations

import pytest

from metasched.compiler.lower import lower
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Select, Var
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.pad_einsum import pad_einsum
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU, ROWS
from tests.support.schedules import checked, fails, schedule
from tests.support.structural import at_values, body, refused, same, split, start, with_position

SUM = """
program sums[N=7, K=9](A: f32[N, K], X: f32[K]) -> C: f32[N]:
    sum: C[i] = sum[k](A[i, k] * X[k])
"""


def padding(*numbers: int) -> tuple[Var, ...]:
    return tuple(const(n) for n in numbers)  # type: ignore[misc]


def test_every_variable() -> None:
    ctx = start(SUM)
    before = ctx.func
    assert pad_einsum(ctx, "sum", padding(4, 6)) == ("sum.A.pad", "sum.X.pad", "sum.C.unpad")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp A_pad: f32[8, 12]
temp X_pad: f32[12]
temp C_pad: f32[8]
for i_sum_A_pad, k_sum_A_pad in grid(8, 12):
    sum.A.pad: A_pad[i, k] = A[i, k] if i < 7 and k < 9 else 0.0  with i = i_sum_A_pad, k = k_sum_A_pad
for k_sum_X_pad in 12:
    sum.X.pad: X_pad[k] = X[k] if k < 9 else 0.0  with k = k_sum_X_pad
for i, k in grid(8, 12):
    sum: C_pad[i] += A_pad[i, k] * X_pad[k]  init 0.0
for i_sum_C_unpad in 7:
    sum.C.unpad: C[i] = C_pad[i]  with i = i_sum_C_unpad
"""
    )


def test_only_the_reduction() -> None:
    ctx = start(SUM)
    before = ctx.func
    assert pad_einsum(ctx, "sum", padding(1, 4)) == ("sum.A.pad", "sum.X.pad")
    same(before, ctx.func)
    assert "A_pad[i, k] = A[i, k] if k < 9 else 0.0" in body(ctx.func)


def test_only_the_elements() -> None:
    ctx = start(SUM)
    before = ctx.func
    assert pad_einsum(ctx, "sum", padding(4, 1)) == ("sum.A.pad", "sum.C.unpad")
    same(before, ctx.func)


def test_a_multiple_already() -> None:
    ctx = start(SUM, N=8, K=12)
    before = ctx.func
    pad_einsum(ctx, "sum", padding(4, 6))
    same(before, ctx.func)
    assert "if i < 8 and k < 12" in body(ctx.func)
    assert not any(isinstance(n, Select) for n in lower(ctx.func, Target.detect()).body.walk())


@pytest.mark.parametrize(("reducer", "neutral"), [("max", "-inf"), ("min", "inf"), ("prod", "1.0")])
def test_what_another_reduction_leaves_unchanged(reducer: str, neutral: str) -> None:
    ctx = start(f"program most[N=7, K=9](A: f32[N, K]) -> M: f32[N]:\n    most: M[i] = {reducer}[k](A[i, k])\n")
    before = ctx.func
    pad_einsum(ctx, "most", padding(4, 4))
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert f"if i < 7 and k < 9 else {neutral}" in body(ctx.func)


def test_integers_of_two_widths() -> None:
    ctx = start(
        "program q[N=5, K=7](A: i8[N, K], B: i8[K, N]) -> C: i32[N, N]:\n"
        "    dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))\n"
    )
    before = ctx.func
    pad_einsum(ctx, "dot", padding(4, 4, 4))
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_a_convolution_over_its_channels() -> None:
    ctx = start(CONV)
    before = ctx.func
    pad_einsum(ctx, "conv", padding(1, 1, 4, 1, 1, 4))
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_copies_can_go_where_they_came_from() -> None:
    ctx = start(CONV)
    before = ctx.func
    x, *_ = pad_einsum(ctx, "conv", padding(1, 1, 4, 1, 1, 4))
    compute_inline(ctx, "pad")
    compute_inline(ctx, x)
    same(before, ctx.func)


def test_one_buffer_read_twice() -> None:
    ctx = start("program gram[N=5, K=7](A: f32[N, K]) -> C: f32[N, N]:\n    dot: C[i, j] = sum[k](A[i, k] * A[j, k])\n")
    before = ctx.func
    assert pad_einsum(ctx, "dot", padding(4, 3, 4)) == ("dot.A.pad", "dot.A.pad_1", "dot.C.unpad")
    same(before, ctx.func)


def test_a_random_multiple() -> None:
    ctx = start(SUM)
    before = ctx.func
    ctx.free |= {"t", "u"}
    pad_einsum(ctx, "sum", (Var("t"), Var("u")))
    split(ctx, "k", "u")
    assert {c.reason for c in ctx.constraints} == {"pad_einsum: a random padding is 1"}
    for t, u in [(2, 2), (4, 6), (7, 5)]:
        same(before, at_values(ctx.func, {"t": t, "u": u}))


def test_in_a_trace() -> None:
    sch = schedule()
    sch.pad_einsum(sch.get_block("dense"), [4, sch.sample_categorical([4, 8]), 1])
    checked(sch)


def test_not_a_reduction() -> None:
    with refused("block `relu` is not a reduction"):
        pad_einsum(start(DENSE_RELU), "relu", padding(4, 4))


def test_its_initialisation_elsewhere() -> None:
    ctx = start(DENSE_RELU)
    decompose_reduction(ctx, "dense", "i")
    with refused("block `dense` has its initialisation in a block already"):
        pad_einsum(ctx, "dense", padding(4, 4, 4))


def test_too_few_numbers() -> None:
    with refused("block `dense` has 3 iteration variables, and 2 numbers are given"):
        pad_einsum(start(DENSE_RELU), "dense", padding(4, 4))


def test_a_multiple_of_nothing() -> None:
    with refused("a padding is less than 1"):
        pad_einsum(start(DENSE_RELU), "dense", padding(4, 0, 1))


@pytest.mark.parametrize(
    "value", ["A[i, k] + X[k]", "exp(A[i, k]) * X[k]", "A[i, k] * (X[k] if k < 3 else 0)", "A[i, k] * X[k] * inf"]
)
def test_something_else_than_a_product(value: str) -> None:
    ctx = start(SUM.replace("A[i, k] * X[k]", value))
    with refused("block `sum` does not reduce a product of reads"):
        pad_einsum(ctx, "sum", padding(4, 4))


def test_a_maximum_of_a_product() -> None:
    ctx = start(SUM.replace("sum[k]", "max[k]"))
    with refused("block `sum` does not reduce a product of reads"):
        pad_einsum(ctx, "sum", padding(4, 4))


def test_a_factor_that_is_the_same_for_all_terms() -> None:
    ctx = start(SUM.replace("X[k]", "X[i]").replace("K=9", "K=7"))
    with refused("`X` is not read at `k`, so that its values would be multiplied by padding"):
        pad_einsum(ctx, "sum", padding(1, 4))


def test_a_term_read_at_more_than_a_variable() -> None:
    with refused("block `conv` reads `Xp` at `r` and more than that"):
        pad_einsum(start(CONV), "conv", padding(1, 1, 1, 4, 1, 1))


WINDOWS = """
program windows[N=9, R=3](A: {a}[N + R - 1], B: {b}[R]) -> C: {c}[N]:
    sum: C[i] = sum[r < R]({c}(A[i + r]) * {c}(B[r]))
"""


def test_a_term_of_integers_may_be_part_of_a_sum_where_another_factor_is_zero_beyond() -> None:
    ctx = start(WINDOWS.format(a="u8", b="i8", c="i32"))
    before = ctx.func
    assert pad_einsum(ctx, "sum", padding(1, 4)) == ("sum.A.pad", "sum.B.pad")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert "A_pad: u8[12]" in body(ctx.func)  # the last window reads one element more


def test_a_term_of_floats_may_not_as_nothing_times_infinity_is_no_zero() -> None:
    with refused("block `sum` reads `A` at `r` and more than that"):
        pad_einsum(start(WINDOWS.format(a="f32", b="f32", c="f32")), "sum", padding(1, 4))


def test_an_element_may_be_part_of_a_sum_of_indices() -> None:
    ctx = start(CONV)
    before = ctx.func
    pad_einsum(ctx, "conv", padding(4, 1, 1, 1, 1, 1))
    same(before, ctx.func)


def test_a_diagonal() -> None:
    ctx = start("program trace[N=5](A: f32[N, N]) -> S: f32[1]:\n    sum: S[o < 1] = sum[i < N](A[i, i])\n")
    with refused("block `sum` reads `A` at `i` and more than that"):
        pad_einsum(ctx, "sum", padding(1, 4))


def test_loops_that_were_split() -> None:
    ctx = start(DENSE_RELU)
    split(ctx, "i", 4)
    with refused("the loops of block `dense` are not its iteration variables any more"):
        pad_einsum(ctx, "dense", padding(4, 4, 4))


def test_no_such_block() -> None:
    sch = schedule(ROWS)
    with fails("pad_einsum: argument `block`: expected a block, got 'x'"):
        sch.pad_einsum("x", [1])  # type: ignore[arg-type]


def test_a_value_and_its_position() -> None:
    ctx = start(DENSE_RELU)
    with_position(ctx, "dense")
    with refused("block `dense` finds a position"):
        pad_einsum(ctx, "dense", padding(4, 4, 4))


def test_a_variable_of_one_value_that_indexes_nothing() -> None:
    sch = schedule(
        """
        program norms[B=1, M=2](X: f32[B, M]) -> Y: f32[B]:
            squares: S[b] = sum[i](X[b, i] * X[b, i])
            Y[b] = sqrt(S[b])
        """
    )
    sch.transform_block_layout(sch.get_block("squares"), "b, i -> b % 3, i, b // 3")
    with fails(
        "pad_einsum: `b_0` of block `squares` has one value, and does not index `S`",
        "leave `b_0` as it is with a padding of 1",
    ):
        sch.pad_einsum(sch.get_block("squares"), [2, 2, 1])
