from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import Var
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from metasched.schedule.trace import Schedule
from metasched.schedule.values import LoopRV
from tests.support.schedules import checked, fails, loops_of, schedule

WINDOWS = """
program windows[N=13, K=4, S=1](A: f32[N * S + 2, K]) -> C: f32[N]:
    sums: B[i] = sum[k](A[i, k])
    near: C[y] = B[y * S] + B[y * S + 1] * 2 + B[y * S + 2]
"""
PAIRS = """
program pairs[N=13, K=4, S=1](A: f32[N * S + 2, K]) -> C: f32[N]:
    sums: B[i] = sum[k](A[i, k])
    near: C[y] = B[y * S] + B[y * S + 1] * 2
"""
REASON = (
    "lanes of loop `{loop}` compute the same elements of `B`, and would go on from one another's sums in block `sums`"
)
HINT = (
    "keep the loops of its reduction, and what it starts from, inside its loops over elements, or choose another loop"
)


def moved(text: str = WINDOWS, **params: Any) -> tuple[Schedule, LoopRV, LoopRV, LoopRV]:
    """The sums under the loop of what reads them: that loop, and those over elements and terms inside it."""
    sch = schedule(text, **params)
    (y,) = loops_of(sch, "near")
    sch.compute_at(sch.get_block("sums"), y)
    _, r, k = loops_of(sch, "sums")
    return sch, y, r, k


def right(sch: Schedule) -> None:
    """The schedule is legal, and its machine code computes what the program says."""
    checked(sch)
    shape = tuple(as_int(e) or 0 for e in sch.program.func.inputs[0].shape)
    given = np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)
    expected = ms.compile(sch.program)(given)
    np.testing.assert_array_equal(ms.compile(sch.program, trace=sch.trace)(given), expected)


def reordered(sch: Schedule, r: LoopRV, k: LoopRV) -> None:
    sch.reorder(k, r)


def decomposed(sch: Schedule, r: LoopRV, k: LoopRV) -> None:
    sch.decompose_reduction(sch.get_block("sums"), r)


def fused(sch: Schedule, r: LoopRV, k: LoopRV) -> None:
    sch.fuse(r, k)


def partly_outside(sch: Schedule, r: LoopRV, k: LoopRV) -> None:
    outer, inner = sch.split(k, [None, 2])
    sch.reorder(outer, r, inner)


def in_parts(sch: Schedule, r: LoopRV, k: LoopRV) -> None:
    """Parts of one element each: neither computes again what it has itself."""
    sch.reorder(k, r)
    _, rest = sch.loop_partition(r, [1])
    sch.loop_partition(rest, [1])


MIXING = [reordered, decomposed, fused, partly_outside, in_parts]


@pytest.mark.parametrize("mix", MIXING)
def test_sums_that_take_turns_are_not_vectorized(mix: Callable[[Schedule, LoopRV, LoopRV], None]) -> None:
    sch, y, r, k = moved()
    mix(sch, r, k)
    right(sch)
    with fails("vectorize: " + REASON.format(loop="y"), HINT):
        sch.vectorize(y, lanes=4)


@pytest.mark.parametrize(
    ("mix", "op"),
    [(reordered, "reorder"), (decomposed, "decompose_reduction"), (fused, "fuse"), (partly_outside, "reorder")],
)
def test_lanes_are_kept_from_sums_that_take_turns(mix: Callable[[Schedule, LoopRV, LoopRV], None], op: str) -> None:
    sch, y, r, k = moved()
    sch.vectorize(y, lanes=4)
    with fails(f"{op}: " + REASON.format(loop="y"), HINT):
        mix(sch, r, k)
    right(sch)


def test_a_product_is_as_a_sum() -> None:
    sch, y, r, k = moved(WINDOWS.replace("sum[k]", "prod[k]"))
    sch.reorder(k, r)
    with fails("vectorize: " + REASON.format(loop="y"), HINT):
        sch.vectorize(y, lanes=4)


def test_a_term_that_comes_again_changes_no_maximum() -> None:
    sch, y, r, k = moved(WINDOWS.replace("sum[k]", "max[k]"))
    sch.reorder(k, r)
    sch.vectorize(y, lanes=4)
    right(sch)


def test_the_position_of_a_maximum_stays() -> None:
    sch = schedule(
        "program p[N=13](A: f32[N + 2, 5]) -> C: f32[N]:\n    V[i], P[i] = argmax[k](A[i, k])\n"
        "    near: C[y] = V[y] + V[y + 1] + V[y + 2] + f32(P[y] + P[y + 1]*8 + P[y + 2]*64)\n"
    )
    (y,) = loops_of(sch, "near")
    sch.compute_at(sch.get_block("V"), y)
    _, r, k = loops_of(sch, "V")
    sch.reorder(k, r)
    sch.vectorize(y, lanes=4)
    right(sch)


def test_sums_that_end_one_after_another_stay() -> None:
    sch, y, _, k = moved()
    sch.decompose_reduction(sch.get_block("sums"), k)
    sch.vectorize(y, lanes=4)
    right(sch)


def test_parts_each_of_which_begins_and_ends_stay() -> None:
    sch, y, r, _ = moved()
    sch.loop_partition(r, [1])
    sch.vectorize(y, lanes=4)
    right(sch)


@pytest.mark.parametrize(("size", "lanes"), [(13, 1), (1, 4)])
def test_a_lane_of_its_own_has_no_other_beside_it(size: int, lanes: int) -> None:
    sch, y, r, k = moved(N=size)
    sch.reorder(k, r)
    sch.vectorize(y, lanes=lanes)
    right(sch)


def test_free_lanes_are_constrained() -> None:
    sch = schedule(WINDOWS, handler=Symbolic(DrawFromPrior(0)))
    (y,) = loops_of(sch, "near")
    sch.compute_at(sch.get_block("sums"), y)
    _, r, k = loops_of(sch, "sums")
    sch.reorder(k, r)
    sch.vectorize(y, lanes=sch.sample_categorical([1, 4]))
    reason = "vectorize: " + REASON.format(loop="y")
    (found,) = (c.cond for c in sch.context.constraints if c.reason == reason)
    lanes = query.find_loop(sch.func, "y").lanes
    assert isinstance(lanes, Var)
    assert [bool(evaluate(found, {lanes.name: n})) for n in (1, 4)] == [True, False]


@pytest.mark.parametrize(("text", "step"), [(PAIRS, 2), (PAIRS, 3), (WINDOWS, 3)])
def test_windows_that_do_not_overlap_stay(text: str, step: int) -> None:
    sch, y, r, k = moved(text, S=step)
    sch.reorder(k, r)
    sch.vectorize(y, lanes=4)
    right(sch)


def test_windows_in_tiles_stay_where_their_guard_keeps_them_apart() -> None:
    sch, y, r, k = moved(S=3)
    outer, inner = sch.split(r, [None, 2])
    sch.reorder(k, outer, inner)
    sch.vectorize(y, lanes=4)
    right(sch)


def test_windows_that_overlap_by_one() -> None:
    sch, y, r, k = moved(S=2)
    sch.reorder(k, r)
    with fails("vectorize: " + REASON.format(loop="y"), HINT):
        sch.vectorize(y, lanes=4)


def test_lanes_along_tiles_are_as_far_apart_as_these() -> None:
    sch = schedule(WINDOWS, N=16)
    (y,) = loops_of(sch, "near")
    outer, inner = sch.split(y, [None, 4])
    sch.compute_at(sch.get_block("sums"), inner)
    *_, r, k = loops_of(sch, "sums")
    sch.reorder(k, r)
    with fails("vectorize: " + REASON.format(loop="y_1"), HINT):
        sch.vectorize(inner, lanes=4)
    sch.vectorize(outer, lanes=4)
    right(sch)


ROWS = """
program rows[N=5, M=8, K=3](A: f32[N + 2, M, K]) -> C: f32[N, M]:
    sums: B[i, j] = sum[k](A[i, j, k])
    near: C[y, x] = B[y, x] + B[y + 1, x] + B[y + 2, x]
"""


def test_lanes_along_another_dimension_stay() -> None:
    sch = schedule(ROWS)
    _, x = loops_of(sch, "near")
    sch.compute_at(sch.get_block("sums"), x)
    *_, r, k = loops_of(sch, "sums")
    sch.reorder(k, r)
    sch.vectorize(x, lanes=8)
    right(sch)


def test_lanes_along_rows_that_follow_each_other() -> None:
    """A vector of no more lanes than a row has is in columns of its own, also where the row ends in it."""
    sch = schedule(ROWS)
    both = sch.fuse(*loops_of(sch, "near"))
    sch.compute_at(sch.get_block("sums"), both)
    sch.reorder(*reversed(loops_of(sch, "sums")[1:]))
    reason = REASON.format(loop="y_x")
    with fails(f"vectorize: {reason}", HINT):
        sch.vectorize(both, lanes=16)
    sch.vectorize(both, lanes=6)
    right(sch)


def test_free_tiles_are_constrained() -> None:
    sch = schedule(WINDOWS, N=16, handler=Symbolic(DrawFromPrior(0)))
    (y,) = loops_of(sch, "near")
    outer, inner = sch.split(y, sch.sample_tile(y, parts=2))
    sch.compute_at(sch.get_block("sums"), inner)
    *_, r, k = loops_of(sch, "sums")
    sch.reorder(k, r)
    sch.vectorize(outer, lanes=4)
    tile = query.find_loop(sch.func, "y_1").extent
    assert isinstance(tile, Var)
    reason = "vectorize: " + REASON.format(loop="y_0")
    (found,) = (c.cond for c in sch.context.constraints if c.reason == reason)
    # Of tiles as long as the loop there is one.
    assert [bool(evaluate(found, {tile.name: size})) for size in (1, 2, 3, 16)] == [False, False, True, True]


@pytest.mark.parametrize("run", ["parallel", "unroll"])
def test_iterations_in_order_begin_anew(run: str) -> None:
    sch, y, r, k = moved()
    sch.reorder(k, r)
    getattr(sch, run)(y)
    sch.unroll(r)
    right(sch)
