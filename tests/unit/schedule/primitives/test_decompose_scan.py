from __future__ import annotations

from dataclasses import replace

import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.nodes import Const
from metasched.ir.validate import validate
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.decompose_scan import decompose_scan
from metasched.schedule.primitives.parallel import parallel
from tests.support.native import native_agrees
from tests.support.structural import body, refused, same, start

RUNNING = """
program running[M=3, N=20](X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j < N] = sum[k < N if k <= j](X[i, k])
"""


def with_condition(condition: str, reducer: str = "sum", term: str = "X[i, k]") -> str:
    text = RUNNING.replace("k <= j", condition).replace("sum", reducer)
    return text.replace("(X[i, k])", f"({term})")


def done() -> ms.Schedule:
    """A running sum in blocks of 4, whose running sum over blocks is in blocks of 2."""
    sch = ms.Schedule(ms.parse_program(RUNNING))
    sch.decompose_scan(sch.decompose_scan(sch.get_block("Y"), 4), 2)
    return sch


def test_elements_go_on_from_the_blocks_before_theirs() -> None:
    ctx = start(RUNNING)
    assert decompose_scan(ctx, "Y", 5) == "Y.before"
    assert body(ctx.func).strip().splitlines()[3:] == (
        [
            "for i_Y_within, b, q, r in grid(3, 4, 5, 5):",
            "    Y.within: Y_within[i, b, q] += X[i, b*5 + r] if r <= q else 0.0  init 0.0  with i = i_Y_within",
            "for i_Y_totals, b_Y_totals, r_Y_totals in grid(3, 4, 5):",
            "    Y.totals: Y_totals[i, b] += X[i, b*5 + r]",
            "        init 0.0  with i = i_Y_totals, b = b_Y_totals, r = r_Y_totals",
            "for i_Y_before, b_Y_before, c in grid(3, 4, 4):",
            "    Y.before: Y_before[i, b] += Y_totals[i, c] if c < b else 0.0",
            "        init 0.0  with i = i_Y_before, b = b_Y_before",
            "for i_Y, j_Y in grid(3, 20):",
            "    Y: Y[i, j] = Y_before[i, j // 5] + Y_within[i, j // 5, j % 5]  with i = i_Y, j = j_Y",
        ]
    )


@pytest.mark.parametrize("size", [2, 5, 7, 19])
@pytest.mark.parametrize("condition", ["k <= j", "k < j", "k >= j", "k > j", "j >= k", "j > k", "j <= k", "j < k"])
def test_each_relation_with_blocks_that_divide_the_elements_and_others(condition: str, size: int) -> None:
    ctx = start(with_condition(condition))
    before = ctx.func
    decompose_scan(ctx, "Y", size)
    validate(ctx.func)
    same(before, ctx.func)


@pytest.mark.parametrize("reducer", ["sum", "prod", "max", "min"])
def test_each_reducer_in_machine_code(reducer: str) -> None:
    ctx = start(with_condition("k <= j", reducer))
    before = ctx.func
    decompose_scan(ctx, decompose_scan(ctx, "Y", 3), 4)
    validate(ctx.func)
    native_agrees(before, ctx.func)


def test_other_conditions_stay_with_the_terms() -> None:
    ctx = start(with_condition("k <= j and X[i, k] > 0 and k + i < 12"))
    before = ctx.func
    decompose_scan(ctx, "Y", 6)
    validate(ctx.func)
    same(before, ctx.func)


@pytest.mark.parametrize(("condition", "term"), [("k < j", "X[i, k + 1]"), ("k > j", "X[i, k - 1]")])
def test_a_term_that_no_element_has_is_not_read(condition: str, term: str) -> None:
    """The last, or the first, term of a running sum without the element itself may be out of bounds."""
    ctx = start(with_condition(condition, term=term))
    before = ctx.func
    decompose_scan(ctx, "Y", 6)
    validate(ctx.func)
    same(before, ctx.func)


def test_what_is_no_block() -> None:
    ctx = start(RUNNING)
    for size in (1, 20):
        with refused(f"{size} elements are no block of the 20 of `Y`"):
            decompose_scan(ctx, "Y", size)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            with_condition("k <= j + 1"),
            "block `Y` is no running reduction: no condition of its terms is `k <= ` a variable of its elements",
        ),
        (
            with_condition("k <= j", term="X[i, k] * X[i, j]"),
            "block `Y` is no running reduction: its terms depend on `j`",
        ),
        (with_condition("k <= j and k + 3 > j"), "block `Y` is no running reduction: its terms depend on `j`"),
        (
            RUNNING.replace("k < N", "k < N - 1"),
            "block `Y` is no running reduction: `j` and `k` have not as many values, or depend on sizes",
        ),
        (
            RUNNING.replace("sum[k < N if k <= j](X[i, k])", "2.0 * X[i, j]"),
            "block `Y` is no running reduction: it is no reduction over one variable that has its init",
        ),
        (
            RUNNING.replace("k < N if k", "k < N, l < 2 if k"),
            "block `Y` is no running reduction: it is no reduction over one variable that has its init",
        ),
    ],
)
def test_what_is_no_running_reduction(text: str, why: str) -> None:
    with refused(why):
        decompose_scan(start(text), "Y", 4)


def test_a_reduction_that_starts_from_something() -> None:
    ctx = start(RUNNING)
    block = query.find_block(ctx.func, "Y")
    ctx.func = query.replace_stmt(ctx.func, block, replace(block, init=Const(1.0, DType.F32)))
    with refused("block `Y` is no running reduction: it starts from something"):
        decompose_scan(ctx, "Y", 4)


def test_after_other_steps() -> None:
    ctx = start(RUNNING)
    decompose_reduction(ctx, "Y", "j")
    with refused("loop `i` of block `Y` is around other blocks as well"):
        decompose_scan(ctx, "Y", 4)
    ctx = start(RUNNING)
    decompose_reduction(ctx, "Y", "i")
    with refused("`Y` is written by `Y.init` as well as by `Y`"):
        decompose_scan(ctx, "Y", 4)
    ctx = start(RUNNING)
    parallel(ctx, "i")
    with refused("loop `i` is parallel"):
        decompose_scan(ctx, "Y", 4)
