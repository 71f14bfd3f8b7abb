from __future__ import annotations

import pytest

import metasched as ms
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Binary
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.decompose_padding import decompose_padding
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.loop_partition import loop_partition
from metasched.schedule.rewrite.parts import tidy
from tests.support.programs import CONV, RELU_PAD_MATMUL, ROWS, STENCIL
from tests.support.structural import body, refused, same, split, start


def test_a_chain_into_its_reader() -> None:
    ctx = start(RELU_PAD_MATMUL)
    before = ctx.func
    compute_inline(ctx, "relu")
    compute_inline(ctx, "pad")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
for i_matmul, j, k_matmul in grid(4, 3, 11):
    matmul: E[i, j] += (max(A[i, k], 0.0) if k < 8 else 0.0) * D[k, j]
        init 0.0  with i = i_matmul, k = k_matmul
"""
    )


def test_reads_of_one_element_share_its_expression() -> None:
    ctx = start("program p(A: f32[4]) -> C: f32[4]:\n    B[i] = A[i] * 2.0\n    C[i] = B[i] * B[i]")
    compute_inline(ctx, "B")
    value = query.find_block(ctx.func, "C").store.value
    assert isinstance(value, Binary)
    assert value.a is value.b
    assert [part for part in value.parts() if part is value.a] == [value.a]
    assert tidy(value) is value


def test_reads_under_a_condition_stay_under_it() -> None:
    ctx = start(STENCIL)
    before = ctx.func
    compute_inline(ctx, "double")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
for i_sum3 in 17:
    sum3: C[i] = (A[i - 1] * 2.0 if i >= 1 else 0.0) + A[i] * 2.0 + (A[i + 1] * 2.0 if i < 16 else 0.0)
        with i = i_sum3
"""
    )


def test_padding_into_a_convolution() -> None:
    ctx = start(CONV)
    before = ctx.func
    compute_inline(ctx, "pad")
    same(before, ctx.func)
    assert "X[h + r - 1, s + w - 1, c] if h + r >= 1" in body(ctx.func)


def test_into_several_readers_from_a_split_loop() -> None:
    ctx = start(ROWS)
    before = ctx.func
    split(ctx, "k_apart", 4)
    compute_inline(ctx, "apart")
    same(before, ctx.func)
    assert "E" not in [b.name for b in ctx.func.temps]
    assert "total: T[i] += A[i, k] - M[i]" in body(ctx.func)
    assert "out: S[i, k] = A[i, k] - M[i] + T[i]" in body(ctx.func)


def test_a_reduction() -> None:
    with refused("block `most` is a reduction"):
        compute_inline(start(ROWS), "most")


def test_an_output() -> None:
    with refused("block `out` writes the output `S`"):
        compute_inline(start(ROWS), "out")


def test_an_initialisation() -> None:
    ctx = start(ROWS)
    decompose_reduction(ctx, "most", "k")
    with refused("`M` is written by `most` as well as by `most.init`"):
        compute_inline(ctx, "most.init")


def test_a_producer_inside_its_loops() -> None:
    ctx = start(RELU_PAD_MATMUL)
    compute_at(ctx, "relu", "i_pad")
    with refused("block `relu`, which `pad` reads, is computed inside loop `i_pad` of `pad`"):
        compute_inline(ctx, "pad")


def test_no_such_block() -> None:
    with refused("there is no block `nothing`"):
        compute_inline(start(ROWS), "nothing")


def chain(step: str, count: int) -> ms.Schedule:
    stages = [f"    S{k + 1}[i] = {step.format(k)}\n" for k in range(count)]
    text = f"program p(X: f32[8]) -> Y: f32[8]:\n    S0[i] = X[i] * 2\n{''.join(stages)}    Y[i] = S{count}[i]\n"
    return ms.Schedule(ms.parse_program(text))


def inline_all(sch: ms.Schedule, count: int) -> None:
    for k in reversed(range(count)):
        sch.compute_inline(sch.get_block(f"S{k}"))


def test_what_is_read_twice_does_not_double_without_end() -> None:
    message = (
        r"`S33` in the place of 128 reads of `S33` makes an expression of up to 1023 operations, reads and numbers"
    )
    with pytest.raises(ScheduleError, match=message + " in `Y`; at most 1000 are allowed") as caught:
        inline_all(chain("S{0}[i] * S{0}[i]", 40), 41)
    assert "compute_at puts it where it is read" in caught.value.hint


def test_long_chains_end_with_a_sentence() -> None:
    with pytest.raises(ScheduleError, match=r"an expression of up to 201 levels in `Y`; at most 200 are allowed"):
        inline_all(chain("S{0}[i] + 1", 250), 251)


# Over data, the sum wraps; `i - 2` in its place would be a number below what 64 bits hold.
WRAPS = """
program wraps() -> Y: i64[4]:
    T[i < 4] = i - 2
    Y[i < 4] = 1 if T[i] - 9223372036854775807 < 0 else 7
"""


def test_data_that_wraps_is_not_made_an_index() -> None:
    with refused(
        "`Y` and `T` in one have index arithmetic that may leave 64 bits, `i - 2 - 9223372036854775807`; "
        "over what is read, it wraps"
    ):
        compute_inline(start(WRAPS), "T")


DIVIDES = """
program divides(X: i64[3]) -> Y: i64[3, 13]:
    T[k < 13] = k
    Y[i < 3, k < 13] = i*T[k] // T[k] + X[i]
"""


def test_data_that_may_be_zero_is_not_made_an_index_to_divide_by() -> None:
    with refused(
        "`Y` and `T` in one have index arithmetic that may divide by zero or less, `i*k // k`; "
        "over what is read, division by zero gives 0"
    ):
        compute_inline(start(DIVIDES), "T")
    above = start(DIVIDES.replace("T[k < 13] = k", "T[k < 13] = k + 1"))
    compute_inline(above, "T")


NUMBERS = """
program numbers() -> Y: i64[4]:
    T[i < 4] = i - 2
    Y[i < 4] = T[i] if i < 2 else 7
"""


def test_what_is_written_over_a_fill_reads_something() -> None:
    ctx = start(NUMBERS)
    decompose_padding(ctx, "Y", "i_Y")
    with refused("block `Y`, which writes `Y` as `Y.fill` does, would read nothing any more"):
        compute_inline(ctx, "T")


def test_parts_that_read_nothing_stay_parts() -> None:
    ctx = start(NUMBERS)
    before = ctx.func
    loop_partition(ctx, "i_Y", (const(2),))
    compute_inline(ctx, "T")
    same(before, ctx.func)


PADDED_BY_0 = """
program padded(X: f32[8, 6], K: f32[1, 6]) -> Y: f32[8, 6]:
    pad: Xp[h, c] = X[h, c] if h >= 0 and h < 8 else 0
    conv: Y[h, c] = sum[r < 1](Xp[h + r, c] * K[r, c])
"""


def test_a_condition_that_always_holds_is_left_out() -> None:
    ctx = start(PADDED_BY_0)
    before = ctx.func
    compute_inline(ctx, "pad")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
for h_conv, c_conv, r in grid(8, 6, 1):
    conv: Y[h, c] += X[h + r, c] * K[r, c]  init 0.0  with h = h_conv, c = c_conv
"""
    )
