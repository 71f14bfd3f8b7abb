from __future__ import annotations

import pytest

from metasched.compiler.lower import lower
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Func, Var
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.set_scope import set_scope
from metasched.schedule.primitives.storage_align import storage_align
from metasched.schedule.primitives.transform_layout import transform_layout
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU
from tests.support.schedules import checked, schedule
from tests.support.structural import at_values, body, refused, same, split, start


def size_of(func: Func, buffer: str) -> int:
    return next(a.size for a in lower(func, Target.detect()).arrays if a.name == buffer)


def test_rows_further_apart() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    storage_align(ctx, "dense", 0, const(16), const(3))
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert "temp C: f32[11, 9]  aligned(0, 16, 3)\n" in body(ctx.func)
    assert size_of(ctx.func, "C") == 11 * 19


def test_every_dimension_counts_on_those_inside() -> None:
    ctx = start(CONV)
    before = ctx.func
    storage_align(ctx, "pad", 1, const(4), const(1))
    storage_align(ctx, "pad", 0, const(8), const(0))
    native_agrees(before, ctx.func)
    assert "aligned(0, 8, 0)  aligned(1, 4, 1)\n" in body(ctx.func)
    assert size_of(ctx.func, "Xp") == 7 * 40  # 7 rows of 5, and up to a multiple of 8


def test_a_new_alignment_of_a_dimension_replaces_the_old() -> None:
    ctx = start(DENSE_RELU)
    storage_align(ctx, "dense", 0, const(16), const(3))
    storage_align(ctx, "dense", 0, const(8), const(0))
    assert size_of(ctx.func, "C") == 11 * 16


def test_what_is_left_of_a_shrunk_array() -> None:
    ctx = start(CONV)
    before = ctx.func
    compute_at(ctx, "pad", "h_conv")
    storage_align(ctx, "pad", 0, const(16), const(0))
    native_agrees(before, ctx.func)
    assert size_of(ctx.func, "Xp") == 3 * 16


def test_of_the_dimensions_in_memory() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    transform_layout(ctx, "dense", "i, j -> j//4, i, j%4")
    storage_align(ctx, "dense", 1, const(4), const(2))
    native_agrees(before, ctx.func)
    assert size_of(ctx.func, "C") == 3 * 11 * 6


def test_registers_have_no_rows() -> None:
    ctx = start(DENSE_RELU, N=2, M=4)
    before = ctx.func
    storage_align(ctx, "dense", 0, const(16), const(3))
    set_scope(ctx, "dense", "register")
    native_agrees(before, ctx.func)


def test_a_random_offset() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    ctx.free |= {"t"}
    storage_align(ctx, "dense", 0, const(16), Var("t"))
    assert not ctx.constraints
    func = at_values(ctx.func, {"t": 5})
    native_agrees(before, func)
    assert size_of(func, "C") == 11 * 21


def test_in_a_trace() -> None:
    sch = schedule()
    sch.storage_align(sch.get_block("dense"), 0, sch.sample_categorical([16, 32]), 3)
    checked(sch)


def test_an_output() -> None:
    with refused("block `relu` writes the output `D`"):
        storage_align(start(DENSE_RELU), "relu", 0, const(16), const(0))


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_no_such_dimension(axis: int) -> None:
    with refused(f"axis {axis} is no dimension of `C` that has rows"):
        storage_align(start(DENSE_RELU), "dense", axis, const(16), const(0))


def test_a_factor_of_nothing() -> None:
    with refused("the factor is less than 1"):
        storage_align(start(DENSE_RELU), "dense", 0, const(0), const(0))


def test_a_negative_offset() -> None:
    with refused("the offset is negative"):
        storage_align(start(DENSE_RELU), "dense", 0, const(4), const(-1))


def test_a_split_that_reads_it() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    storage_align(ctx, "dense", 0, const(8), const(1))
    split(ctx, "j_relu", 4)
    native_agrees(before, ctx.func)
