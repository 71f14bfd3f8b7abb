from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, features_of
from metasched.ir.coverage import instances
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Func
from metasched.ir.query import find_block, loops_above
from metasched.ir.validate import InvalidProgram, validate
from metasched.schedule.context import Context
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.fuse import fuse
from metasched.schedule.primitives.parallel import parallel
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.store_at import store_at
from metasched.schedule.primitives.transform_layout import transform_layout
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.support.structural import at_values, body, refused, same, split, start, with_position

BLUR = """
program blur[H=10, W=6](X: f32[H + 2, W + 2]) -> Y: f32[H, W]:
    B: f32[H + 2, W]
    rows: B[y, x] = X[y, x + 0] + X[y, x + 1] + X[y, x + 2]
    out:  Y[y, x] = B[y + 0, x] + B[y + 1, x] + B[y + 2, x]
"""
TARGET = Target("x", frozenset({"avx512f"}), 1, 1 << 15, 1 << 20, 1 << 25)


def computed(text: str = BLUR, loop: str = "y_out") -> Context:
    ctx = start(text)
    compute_at(ctx, "rows", loop)
    return ctx


def stored(ctx: Context, loop: str = "root") -> Func:
    before = ctx.func
    store_at(ctx, "rows", loop)
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    return ctx.func


def times_computed(func: Func) -> np.ndarray:
    """How often each element of `B` is computed."""
    found = instances(find_block(func, "rows"), loops_above(func, "rows"))
    assert found is not None
    counts = np.zeros(found.extents, int)
    np.add.at(counts, tuple(found.iters.T), 1)
    return counts


def stored_elements(func: Func) -> int:
    kernel = lower(func, TARGET)
    return next(a.size for a in kernel.arrays if a.kind in (ArrayKind.SHARED, ArrayKind.THREAD))


def test_each_row_is_computed_once_and_three_are_kept() -> None:
    ctx = computed()
    assert times_computed(ctx.func).sum() == 3 * 10 * 6
    func = stored(ctx)
    assert (times_computed(func) == 1).all()
    assert stored_elements(func) == 3 * 6
    assert (
        body(func)
        == """
temp B: f32[12, 6]  at root, 3 of axis 0
for y_out in 10:
    for y_rows, x_rows in grid(3, 6):
        rows: B[y, x] = X[y, x] + X[y, x + 1] + X[y, x + 2]
            with y = y_out + y_rows, x = x_rows  if (y_out < 1 or y_rows >= 2)
    for x_out in 6:
        out: Y[y, x] = B[y, x] + B[y + 1, x] + B[y + 2, x]  with y = y_out, x = x_out
"""
    )


def test_at_the_outer_part_of_a_split_loop_each_tile_starts_anew() -> None:
    ctx = start(BLUR)
    split(ctx, "y_out", 4)
    compute_at(ctx, "rows", "y_out_1")
    func = stored(ctx, "y_out_0")
    assert times_computed(func)[:, 0].tolist() == [1, 1, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1]
    assert stored_elements(func) == 3 * 6


def test_across_both_parts_of_a_split_loop() -> None:
    ctx = start(BLUR)
    split(ctx, "y_out", 4)
    compute_at(ctx, "rows", "y_out_1")
    assert (times_computed(stored(ctx)) == 1).all()


def test_tiles_of_free_size() -> None:
    ctx = start(BLUR)
    split(ctx, "y_out", "t")
    compute_at(ctx, "rows", "y_out_0")
    before = start(BLUR).func
    store_at(ctx, "rows", "root")
    assert ctx.constraints == []
    for t in (1, 3, 5, 10):
        func = at_values(ctx.func, {"t": t})
        same(before, func)
        assert (times_computed(func) == 1).all()


def test_strides() -> None:
    text = """
    program strided[N=8](X: f32[2*N + 2]) -> Y: f32[N]:
        rows: B[y] = X[y] * 2
        out:  Y[y] = B[2*y] + B[2*y + 1] + B[2*y + 3]
    """
    func = stored(computed(text))
    assert func.temps[0].roll is not None
    assert (func.temps[0].roll.window, func.temps[0].roll.step) == (const(4), const(2))
    assert times_computed(func).max() == 1


def test_a_producer_that_reduces() -> None:
    text = """
    program reduced[H=9, K=4](X: f32[H + 2, K]) -> Y: f32[H]:
        rows: B[y] = sum[k](X[y, k])
        out:  Y[y] = B[y + 0] * B[y + 1] + B[y + 2]
    """
    func = stored(computed(text))
    assert times_computed(func).max() == 1
    assert stored_elements(func) == 3


def test_tiles_in_parallel_keep_a_window_each() -> None:
    ctx = start(BLUR)
    split(ctx, "y_out", 4)
    parallel(ctx, "y_out_0")
    compute_at(ctx, "rows", "y_out_1")
    func = stored(ctx, "y_out_0")
    kinds = {a.name: a.kind for a in lower(func, TARGET).arrays}
    assert kinds["B"] is ArrayKind.THREAD


def test_the_model_of_cost_sees_what_is_new() -> None:
    ctx = computed()
    work = [features_of(f, TARGET)[NAMES.index("all.flops")] for f in (ctx.func, stored(ctx))]
    assert work[1] < work[0]


# --- what is refused -------------------------------------------------------------------------------------


def test_an_output() -> None:
    with refused("block `out` writes the output `Y`"):
        store_at(computed(), "out", "root")


def test_a_block_at_no_loop_of_its_readers() -> None:
    with refused("block `rows` is not computed under a loop of its readers"):
        store_at(start(BLUR), "rows", "root")


def test_a_value_and_its_position() -> None:
    text = """
    program best[H=9, K=4](X: f32[H + 2, K]) -> Y: f32[H]:
        rows: B[y] = max[k](X[y, k])
        out:  Y[y] = B[y + 0] * B[y + 1] + B[y + 2]
    """
    ctx = computed(text)
    with_position(ctx, "rows")
    with refused("block `rows` writes values and their positions, `B` and `position`"):
        store_at(ctx, "rows", "root")


def test_twice() -> None:
    ctx = computed()
    stored(ctx)
    with refused("`B` is stored at a loop already"):
        store_at(ctx, "rows", "root")


def test_a_layout() -> None:
    ctx = computed()
    transform_layout(ctx, "rows", "y, x -> x, y")
    with refused("`B` has a layout of its own"):
        store_at(ctx, "rows", "root")


@pytest.mark.parametrize("loop", ["y_out", "x_out", "inline"])
def test_a_loop_that_is_not_around(loop: str) -> None:
    with refused(f"`{loop}` is not a loop around `y_out`, where block `rows` is computed"):
        store_at(computed(), "rows", loop)


def test_iterations_in_no_order() -> None:
    ctx = start(BLUR)
    parallel(ctx, "y_out")
    compute_at(ctx, "rows", "y_out")
    with refused("the iterations of loop `y_out`, which is parallel, are not in order"):
        store_at(ctx, "rows", "root")


def test_nothing_moves() -> None:
    text = """
    program fixed[N=4](X: f32[3]) -> Y: f32[N]:
        rows: B[y] = X[y] * 2
        out:  Y[i] = B[0] + B[1] + B[2]
    """
    with refused("of the dimensions that `rows` computes, none move with loop `i`; one has to"):
        store_at(computed(text, "i"), "rows", "root")


def test_two_dimensions_move() -> None:
    ctx = start(BLUR)
    compute_at(ctx, "rows", "x_out")
    with refused("of the dimensions that `rows` computes, `y` and `x` move with loop `x_out`; one has to"):
        store_at(ctx, "rows", "root")


def test_a_loop_between_that_moves_nothing() -> None:
    text = """
    program again[H=6, C=3](X: f32[H + 2]) -> Y: f32[H, C]:
        rows: B[y] = X[y] * 2
        out:  Y[y, c] = B[y + 0] + B[y + 2]
    """
    ctx = start(text)
    compute_at(ctx, "rows", "c")
    with refused("every iteration of loop `c` computes the same of `B`"):
        store_at(ctx, "rows", "root")


def test_uneven_steps() -> None:
    ctx = start(BLUR)
    split(ctx, "y_out", 5)
    reorder(ctx, "y_out_1", "y_out_0")
    compute_at(ctx, "rows", "y_out_0")
    with refused("the region that `rows` computes does not move by the same step in every iteration of loop `y_out_1`"):
        store_at(ctx, "rows", "root")


def test_a_region_of_which_iterations_leave_out_a_part() -> None:
    """A tile of two that has one row: the other is in its region, and no iteration computes it."""
    ctx = start(BLUR)
    split(ctx, "y_out", 1)
    split(ctx, "y_out_1", 1)
    compute_at(ctx, "rows", "y_out_0")
    split(ctx, "y_out_1_1", 2)
    compute_at(ctx, "rows", "y_out_1_0")
    with refused(
        "an iteration of loop `y_out_1_0` does not compute all of its region of `B`, and the next would take the rest "
        "for computed"
    ):
        store_at(ctx, "rows", "root")


def test_nothing_is_shared() -> None:
    text = """
    program apart[N=4](X: f32[2*N]) -> Y: f32[N]:
        rows: B[y] = X[y] * 2
        out:  Y[y] = B[2*y] + B[2*y + 1]
    """
    with refused("neighbouring iterations of loop `y_out` share nothing of `B`"):
        store_at(computed(text), "rows", "root")


def test_loops_that_are_fused() -> None:
    text = """
    program again[H=6, C=3](X: f32[H + 2]) -> Y: f32[H, C]:
        rows: B[y] = X[y] * 2
        out:  Y[y, c] = B[y + 0] + B[y + 2]
    """
    ctx = start(text)
    fused = fuse(ctx, "y_out", "c")
    compute_at(ctx, "rows", fused)
    with refused("what `rows` computes is not linear in the loops between"):
        store_at(ctx, "rows", "root")


# --- afterwards ------------------------------------------------------------------------------------------


def done() -> Schedule:
    sch = schedule(BLUR)
    y, x = loops_of(sch, "out")
    sch.split(x, [None, 4])
    rows = sch.get_block("rows")
    sch.compute_at(rows, y)
    sch.store_at(rows, "root")
    return sch


def test_its_trace_replays() -> None:
    sch = done()
    checked(sch)
    assert "store_at(rows, root)" in str(sch.trace)


def test_loops_inside_may_change() -> None:
    sch = done()
    _, r, x = loops_of(sch, "rows")
    sch.split(x, [None, 4])
    sch.unroll(r)
    checked(sch)


KEPT = "`B` is kept from one iteration of loop `y_out` to the next, and would not be any more"


def test_the_loops_between_are_not_changed() -> None:
    sch = done()
    y = loops_of(sch, "out")[0]
    with fails(f"split: {KEPT}", "split before store_at"):
        sch.split(y, [None, 2])
    with fails(
        "parallel: iterations of loop `y_out` go on from what earlier ones keep in `B`",
        "before store_at, split it, and store `B` at the outer part: that may be parallel",
    ):
        sch.parallel(y)
    with fails("transform_layout: `B` is a window that rolls"):
        sch.transform_layout(sch.get_block("rows"), "y, x -> x, y")
    checked(sch)


def test_the_program_is_valid_only_while_elements_are_there() -> None:
    func = stored(computed())
    (buffer,) = func.temps
    assert buffer.roll is not None
    small = replace(func, temps=(replace(buffer, roll=replace(buffer.roll, window=const(2))),))
    with pytest.raises(InvalidProgram, match="is read when another has taken its place"):
        validate(small)
    gone = replace(func, temps=(replace(buffer, roll=replace(buffer.roll, loop="nowhere")),))
    with pytest.raises(InvalidProgram, match="no loop is between its storage and where it is computed"):
        validate(gone)
    beyond = replace(func, temps=(replace(buffer, roll=replace(buffer.roll, axis=7)),))
    with pytest.raises(InvalidProgram, match="it rolls along dimension 7"):
        validate(beyond)
