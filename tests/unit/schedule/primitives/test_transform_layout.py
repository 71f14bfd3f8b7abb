from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lower import lower
from metasched.errors import ScheduleError
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Const
from metasched.schedule.primitives.cache_read import cache_read
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.rfactor import rfactor
from metasched.schedule.primitives.storage_align import storage_align
from metasched.schedule.primitives.store_at import store_at
from metasched.schedule.primitives.transform_layout import transform_layout
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU
from tests.support.schedules import checked, fails, lines, schedule
from tests.support.structural import at_values, body, refused, same, split, start, vector

PACKED = "k, j -> j//4, k, j%4"


def test_a_packed_copy() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_layout(ctx, cache_read(ctx, "dense", "B"), PACKED)
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp C: f32[11, 9]
temp B_global: f32[7, 9]  layout k, j -> j // 4, k, j % 4
for k_dense_B_read, j_dense_B_read in grid(7, 9):
    dense.B.read: B_global[k, j] = B[k, j]  with k = k_dense_B_read, j = j_dense_B_read
for i, j, k in grid(11, 9, 7):
    dense: C[i, j] += A[i, k] * B_global[k, j]  init 0.0
for i_relu, j_relu in grid(11, 9):
    relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )
    arrays = {a.name: a.size for a in lower(ctx.func, Target.detect()).arrays}
    assert arrays["B_global"] == 3 * 7 * 4


def test_an_index_that_a_tile_decides_is_linear() -> None:
    """A tile of the loops that is one of the layout leaves no quotient in the address."""
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_layout(ctx, cache_read(ctx, "dense", "B"), PACKED)
    _, j1 = split(ctx, "j", 4)
    vector(ctx, j1)
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    product = str(lower(ctx.func, Target.detect()))
    assert "B_global" in product
    loads = [n for n in lower(ctx.func, Target.detect()).body.walk() if getattr(n, "buffer", "") == "B_global"]
    assert loads
    assert all("FLOORDIV" not in repr(n) and "MOD" not in repr(n) for n in loads)


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_a_tile_that_does_not_fit_the_layout(factor: int) -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    copy = cache_read(ctx, "dense", "B")
    transform_layout(ctx, copy, PACKED)
    _, j1 = split(ctx, "j", factor)
    compute_at(ctx, copy, j1)
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_a_vector_over_whole_rows() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_layout(ctx, "dense", "i, j -> j%3, i, j//3")
    vector(ctx, "j_relu")
    native_agrees(before, ctx.func)


def test_shrunk_in_memory_under_a_loop() -> None:
    ctx = start(CONV)
    before = ctx.func
    compute_at(ctx, "pad", "h_conv")
    transform_layout(ctx, "pad", "h, w, c -> c, h*7 + w")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    arrays = {a.name: a.size for a in lower(ctx.func, Target.detect()).arrays}
    assert arrays["Xp"] == 2 * 3 * 7


def test_a_second_layout_replaces_the_first() -> None:
    ctx = start(DENSE_RELU)
    transform_layout(ctx, "dense", "i, j -> j, i")
    transform_layout(ctx, "dense", "a, b -> a//2, b, a%2")
    assert "temp C: f32[11, 9]  layout a, b -> a // 2, b, a % 2" in body(ctx.func)


def test_extents_that_are_random() -> None:
    ctx = start(DENSE_RELU, K=12)
    before = ctx.func
    _, k1 = split(ctx, "k", "t")
    rfactor(ctx, k1)
    transform_layout(ctx, "dense.rf", "k, i, j -> i//8, k//4, j, i%8, k%4")
    for t in (1, 4, 6):
        func = at_values(ctx.func, {"t": t})
        same(before, func)
        native_agrees(before, func)


def test_a_function_in_python() -> None:
    sch = schedule()
    copy = sch.cache_read(sch.get_block("dense"), "B")
    sch.transform_layout(copy, lambda k, j: (j // 4, k, j % 4))
    checked(sch)
    assert lines(sch.trace)[-1] == 'transform_layout(dense_B_read, "k, j -> j // 4, k, j % 4")'


def test_a_function_that_returns_no_index() -> None:
    sch = schedule()
    with fails("transform_layout: the index map returns 0.5, which is no index"):
        sch.transform_layout(sch.get_block("dense"), lambda i, j: (i, 0.5))


def test_a_random_variable_in_a_function() -> None:
    sch = schedule()
    width = sch.sample_categorical([4, 8])
    with pytest.raises(ScheduleError, match="is not an index of the map"):
        sch.transform_layout(sch.get_block("dense"), lambda i, j: (i + width, j))


def test_an_output() -> None:
    with refused("block `relu` writes the output `D`"):
        transform_layout(start(DENSE_RELU), "relu", "i, j -> j, i")


def test_a_text_that_is_no_map() -> None:
    with refused('the index map "i, j" is not understood: expected `,` or `->`, found the end of the line (column 5)'):
        transform_layout(start(DENSE_RELU), "dense", "i, j")


def test_another_rank() -> None:
    with refused('the index map "i -> i" has 1 indices on its left, and `C` has 2'):
        transform_layout(start(DENSE_RELU), "dense", "i -> i")


@pytest.mark.parametrize("text", ["i, j -> i + j", "i, j -> j", "i, j -> i*4 + j", "i, j -> i//4, j", "i, j -> j, i%8"])
def test_elements_in_one_place(text: str) -> None:
    with refused(f'"{text}" does not keep the elements of `C` apart: `i` does not follow from it'):
        transform_layout(start(DENSE_RELU), "dense", text)


def test_a_negative_index() -> None:
    with refused('"i, j -> i - 3, j" leaves the memory of `C`: an index may be negative'):
        transform_layout(start(DENSE_RELU), "dense", "i, j -> i - 3, j")


def test_rows_that_are_aligned() -> None:
    ctx = start(DENSE_RELU)
    storage_align(ctx, "dense", 0, const(16), const(0))
    with refused("the rows of `C` are aligned already"):
        transform_layout(ctx, "dense", "i, j -> j, i")


def test_a_window_that_rolls() -> None:
    ctx = start(CONV)
    compute_at(ctx, "pad", "h_conv")
    store_at(ctx, "pad", "root")
    with refused("`Xp` is a window that rolls"):
        transform_layout(ctx, "pad", "h, w, c -> c, h, w")


def test_panels_of_a_size_that_is_given() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_layout(ctx, cache_read(ctx, "dense", "B"), "k, j -> j//t, k, j%t", const(4))
    assert "temp B_global: f32[7, 9]  layout k, j -> j // 4, k, j % 4" in body(ctx.func)
    same(before, ctx.func)
    native_agrees(before, ctx.func)


def test_a_function_of_random_variables_is_written_as_text_with_sizes() -> None:
    sch = schedule(DENSE_RELU)
    t = sch.sample_categorical([2, 4], name="panel", decision=4)
    copy = sch.cache_read(sch.get_block("dense"), "B")
    sch.transform_layout(copy, lambda k, j: (j // (t * 2), k, j % (t * 2)))
    line = 'transform_layout(dense_B_read, "k, j -> j // (t*2), k, j % (t*2)", t0)'
    assert line in str(sch.trace)
    assert "layout k, j -> j // 8, k, j % 8" in str(sch)
    again = ms.parse_trace(str(sch.trace)).with_decisions({"panel": 2}).apply_to(sch.program)
    assert "layout k, j -> j // 4, k, j % 4" in str(again)
    assert ms.Trace.from_json(sch.trace.as_json()) == sch.trace
    assert ms.Trace.from_python(sch.trace.as_python()) == sch.trace


def test_sizes_are_named_apart_from_indices() -> None:
    sch = schedule(DENSE_RELU)
    x, y = (sch.sample_categorical([2, 4], name=name) for name in "xy")
    copy = sch.cache_read(sch.get_block("dense"), "B")
    sch.transform_layout(copy, lambda t0, t1: (t1 // x, t0 // y, t1 % x, t0 % y))
    assert '"t0, t1 -> t1 // t0_, t0 // t1_, t1 % t0_, t0 % t1_", t0, t1)' in str(sch.trace)


@pytest.mark.parametrize(
    ("sizes", "message", "hint"),
    [
        ((), 'the index map "k, j -> j//t, k, j%t" divides by 1 size, and 0 are given', "after the map, give `t`"),
        ((const(2), const(3)), "divides by 1 size, and 2 are given", "after the map, give `t`"),
        ((const(0),), "the size `t` of the index map", "make it positive"),
    ],
)
def test_sizes_that_are_refused(sizes: tuple[Const, ...], message: str, hint: str) -> None:
    ctx = start(DENSE_RELU)
    copy = cache_read(ctx, "dense", "B")
    with pytest.raises(ScheduleError) as info:
        transform_layout(ctx, copy, "k, j -> j//t, k, j%t", *sizes)
    assert message in info.value.reason
    assert info.value.hint == hint
