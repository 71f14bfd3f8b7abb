from __future__ import annotations

import pytest

from metasched.compiler.lower import lower
from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Select
from metasched.schedule.context import Context
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.decompose_padding import decompose_padding
from metasched.schedule.primitives.pad_einsum import pad_einsum
from metasched.schedule.primitives.parallel import parallel
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.transform_layout import transform_layout
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU, STENCIL
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.support.structural import at_values, body, refused, same, split, start, vector

PAD = """
program padded[N=8](A: f32[N]) -> C: f32[N + 2]:
    pad: B[i < N + 2] = A[i - 1] if i >= 1 and i < N + 1 else 0
    out: C[i] = B[i] * 2
"""

OUTPUT = """
program pad[N=5, M=6](A: f32[N, M]) -> B: f32[N + 3, M + 2]:
    pad: B[i, j] = A[i - 2, j - 1] if i >= 2 and i < N + 2 and j >= 1 and j <= M else 7
"""


def legal(before: Context, ctx: Context) -> None:
    same(before.func, ctx.func)
    native_agrees(before.func, ctx.func)


def test_everything_then_what_is_inside() -> None:
    ctx, before = start(CONV), start(CONV)
    assert decompose_padding(ctx, "pad", "h") == "pad.fill"
    legal(before, ctx)
    assert (
        body(ctx.func).split("for h_conv")[0]
        == """
temp Xp: f32[7, 7, 2]
for h_fill, w_fill, c_fill in grid(7, 7, 2):
    pad.fill: Xp[h, w, c] = 0.0  with h = h_fill, w = w_fill, c = c_fill
for h, w, c in grid(5, 5, 2):
    pad: Xp[h, w, c] = X[h - 1, w - 1, c]  with h = h + 1, w = w + 1
"""
    )
    assert not any(isinstance(n, Select) for n in ctx.func.body.walk())


def test_row_by_row() -> None:
    ctx, before = start(CONV), start(CONV)
    decompose_padding(ctx, "pad", "w")
    legal(before, ctx)
    assert "pad: Xp[h, w, c] = X[h - 1, w - 1, c]  with w = w + 1  if h >= 1 and h < 6" in body(ctx.func)
    assert not any(isinstance(n, Select) for n in lower(ctx.func, Target.detect()).body.walk())


def test_an_output() -> None:
    ctx, before = start(OUTPUT), start(OUTPUT)
    decompose_padding(ctx, "pad", "i")
    legal(before, ctx)
    assert "pad.fill: B[i, j] = 7.0" in body(ctx.func)


def test_under_a_tile_of_its_reader_in_parallel() -> None:
    ctx, before = start(CONV), start(CONV)
    i0, _ = split(ctx, "h_conv", 2)
    compute_at(ctx, "pad", i0)
    decompose_padding(ctx, "pad", "h_pad")
    parallel(ctx, i0)
    legal(before, ctx)
    assert "if h < 7 and h >= 1 and h < 6" in body(ctx.func)


def test_under_a_tile_of_random_size() -> None:
    ctx, before = start(CONV), start(CONV)
    i0, _ = split(ctx, "h_conv", "t")
    compute_at(ctx, "pad", i0)
    decompose_padding(ctx, "pad", "h_pad")
    for t in (1, 2, 5):
        same(before.func, at_values(ctx.func, {"t": t}))


def test_a_vector_loop_is_narrowed() -> None:
    ctx, before = start(CONV), start(CONV)
    vector(ctx, "c")
    decompose_padding(ctx, "pad", "h")
    legal(before, ctx)
    assert body(ctx.func).count("vectorized(4)") == 2


def test_a_split_loop_is_guarded() -> None:
    ctx, before = start(CONV), start(CONV)
    split(ctx, "w", 4)
    decompose_padding(ctx, "pad", "h")
    legal(before, ctx)


def test_a_sum_of_variables_is_guarded() -> None:
    text = (
        "program low[N=6](A: f32[N, N]) -> L: f32[N, N]:\n    low: L[i, j] = A[i, j] if i + j < 7 and 2*i > 3 else 0\n"
    )
    ctx, before = start(text), start(text)
    decompose_padding(ctx, "low", "i")
    legal(before, ctx)
    assert "if i + j < 7 and i*2 > 3" in body(ctx.func)


def test_nothing_inside() -> None:
    text = "program none[N=6](A: f32[N]) -> L: f32[N]:\n    low: L[i] = A[i] if i < 2 and i >= 4 else 0\n"
    ctx, before = start(text), start(text)
    decompose_padding(ctx, "low", "i")
    same(before.func, ctx.func)


def test_the_copies_of_pad_einsum() -> None:
    ctx, before = start(DENSE_RELU), start(DENSE_RELU)
    for name in pad_einsum(ctx, "dense", (const(4), const(4), const(4)))[:2]:
        decompose_padding(ctx, name, query.loops_above(ctx.func, name)[0].var)
    legal(before, ctx)
    assert " if " not in body(ctx.func)


def test_a_layout_goes_for_both() -> None:
    ctx, before = start(CONV), start(CONV)
    transform_layout(ctx, decompose_padding(ctx, "pad", "h"), "h, w, c -> c, w, h")
    legal(before, ctx)


def test_in_a_trace() -> None:
    sch = schedule(CONV)
    h, *_ = loops_of(sch, "pad")
    fill = sch.decompose_padding(sch.get_block("pad"), h)
    sch.vectorize(sch.fuse(*sch.get_loops(fill)), lanes=8)
    checked(sch)


def test_what_reads_it_does_not_move_into_it() -> None:
    """The copy completes what is inside only."""
    ctx = start(PAD)
    decompose_padding(ctx, "pad", "i")
    with refused(
        "what `pad` completes in an iteration of loop `i` is not a block of consecutive elements: `pad.fill` has "
        "written some of them"
    ):
        reverse_compute_at(ctx, "out", "i")


@pytest.mark.parametrize("block", ["pad", "pad.fill"])
def test_steps_for_one_writer_come_before(block: str) -> None:
    ctx = start(CONV)
    decompose_padding(ctx, "pad", "h")
    other = "pad" if block == "pad.fill" else "pad.fill"
    with refused(f"`Xp` is written by `{other}` as well as by `{block}`"):
        compute_inline(ctx, block)
    with refused(f"`Xp` is written by `{other}` as well as by `{block}`"):
        decompose_padding(ctx, block, "h")


def test_a_reduction() -> None:
    with refused("block `dense` is a reduction"):
        decompose_padding(start(DENSE_RELU), "dense", "i")


def test_no_padding() -> None:
    with refused("block `relu` is not padding, `VALUE if CONDITION else CONSTANT`"):
        decompose_padding(start(DENSE_RELU), "relu", "i_relu")


@pytest.mark.parametrize("cond", ["i < 2 or i > 4", "A[i] > 0", "i != 3"])
def test_a_condition_that_is_no_bound(cond: str) -> None:
    ctx = start(f"program p[N=6](A: f32[N]) -> L: f32[N]:\n    low: L[i] = A[i] if {cond} else 0\n")
    with refused("the condition of block `low` is more than bounds on its iteration variables"):
        decompose_padding(ctx, "low", "i")


def test_a_loop_elsewhere() -> None:
    with refused("loop `h_conv` is not around block `pad`"):
        decompose_padding(start(CONV), "pad", "h_conv")


def test_a_loop_around_its_reader() -> None:
    ctx = start(CONV)
    compute_at(ctx, "pad", "h_conv")
    with refused("loop `h_conv` is around block `conv` as well"):
        decompose_padding(ctx, "pad", "h_conv")


def test_the_middle_of_a_stencil() -> None:
    with refused("block `sum3` is not padding, `VALUE if CONDITION else CONSTANT`"):
        decompose_padding(start(STENCIL), "sum3", "i_sum3")


def test_a_loop_that_is_gone() -> None:
    sch = schedule(CONV)
    h, *_ = loops_of(sch, "pad")
    sch.split(h, [None, 2])
    with fails("decompose_padding: loop `h` no longer exists"):
        sch.decompose_padding(sch.get_block("pad"), h)
