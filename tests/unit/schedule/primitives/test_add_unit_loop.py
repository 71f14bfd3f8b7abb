from __future__ import annotations

from metasched.schedule.primitives.add_unit_loop import add_unit_loop
from metasched.schedule.primitives.compute_at import compute_at
from tests.support.native import native_agrees
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, schedule
from tests.support.structural import body, refused, same, start

NORM = """
program norm[N=6](A: f32[N]) -> S: f32[]:
    total: T[] = sum[i](A[i] * A[i])
    twice: S[] = T[] + T[]
"""


def test_around_a_block_without_loops() -> None:
    ctx = start(NORM)
    before = ctx.func
    assert add_unit_loop(ctx, "twice") == "unit"
    compute_at(ctx, "total", "unit")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    assert (
        body(ctx.func)
        == """
temp T: f32
for unit in 1:
    for i_total in 6:
        total: T += A[i] * A[i]  init 0.0  with i = i_total
    twice: S = T[] + T[]
"""
    )


def test_around_a_loop_twice() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    assert [add_unit_loop(ctx, "j"), add_unit_loop(ctx, "dense")] == ["unit", "unit_1"]
    same(before, ctx.func)
    assert "for i, unit, j, k, unit_1 in grid(11, 1, 9, 7, 1):" in body(ctx.func)


def test_in_a_trace() -> None:
    sch = schedule()
    sch.unroll(sch.add_unit_loop(sch.get_block("relu")))
    checked(sch)


def test_a_target_that_is_gone() -> None:
    with refused("there is no block or loop `x` any more"):
        add_unit_loop(start(DENSE_RELU), "x")
