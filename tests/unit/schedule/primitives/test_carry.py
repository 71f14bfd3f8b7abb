"""Elements of running reductions that go on from the ones before."""

from __future__ import annotations

import pytest

import metasched as ms
from tests.support.native import native_agrees
from tests.support.rulework import correct
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.support.structural import body

ROWS = """
program rows[B=2, N=9, M=13](X: f32[B, N, M]) -> Y: f32[B, N, M]:
    Y[b, i < N, j] = sum[k < N if k <= i](X[b, k, j])
"""
READ = """
program read[N=9, M=13](X: f32[N, M]) -> Z: f32[N, M]:
    Y: f32[N, M]
    Y[i < N, j] = sum[k < N if k <= i](X[k, j])
    Z[i, j] = Y[i, j] + X[i, j]
"""


def carried(text: str = ROWS, order: str = "bikj") -> ms.Schedule:
    sch = schedule(text)
    loops = dict(zip("bijk" if "b" in order else "ijk", loops_of(sch, "Y"), strict=True))
    sch.reorder(*(loops[name] for name in order))
    sch.carry(loops["i"])
    return sch


def test_both_loops_are_marked() -> None:
    assert body(carried().func).strip().splitlines()[-4:] == [
        "    carried i in 9:",
        "        carried k in 9:",
        "            for j in 13:",
        "                Y: Y[b, i, j] += X[b, k, j] if k <= i else 0.0  init 0.0",
    ]


@pytest.mark.parametrize("order", ["bikj", "bjik", "jbik", "bijk"])
@pytest.mark.parametrize("condition", ["k <= i", "i > k", "k < i and X[b, k, j] > 0.0"])
@pytest.mark.parametrize("reducer", ["sum", "prod", "max", "min"])
def test_orders_conditions_and_reducers(order: str, condition: str, reducer: str) -> None:
    sch = carried(ROWS.replace("k <= i", condition).replace("sum", reducer), order)
    checked(sch)
    native_agrees(sch.program.func, sch.func)


def test_lanes_and_threads_beside_the_elements() -> None:
    sch = schedule(ROWS)
    b, i, j, k = loops_of(sch, "Y")
    outer, inner = sch.split(j, [None, 5])
    sch.reorder(b, outer, i, k, inner)
    sch.carry(i)
    sch.vectorize(inner, lanes=4)
    sch.parallel(sch.fuse(b, outer))
    correct(sch)


def test_readers_and_copies_are_elsewhere() -> None:
    sch = schedule(READ)
    i, j, k = loops_of(sch, "Y")
    sch.reorder(j, i, k)
    sch.carry(i)
    with fails("reverse_compute_at: loop `i` is carried", "reverse_compute_at before deciding how it runs"):
        sch.reverse_compute_at(sch.get_block("Z"), i)
    sch.reverse_compute_at(sch.get_block("Z"), j)
    correct(sch)


def test_what_is_no_running_reduction() -> None:
    sch = schedule(ROWS.replace(" if k <= i", ""))
    with fails(
        "carry: block `Y` is no running reduction: no condition of its terms is `k <= ` a variable of its elements",
        "it is to be as `Y[j] = sum[k < N if k <= j](X[k])`",
    ):
        sch.carry(loops_of(sch, "Y")[1])
    sch = schedule(ROWS.replace("k <= i", "k >= i"))
    with fails(
        "carry: block `Y` runs from the last element to the first",
        "loops count up: write it along the elements from the end, or decompose_scan it",
    ):
        sch.carry(loops_of(sch, "Y")[1])


def test_loops_that_do_not_go() -> None:
    sch = schedule(ROWS)
    b, i, j, k = loops_of(sch, "Y")
    with fails("carry: loop `j` does not go over the elements that `Y` runs along, or its terms are split"):
        sch.carry(j)
    sch.split(k, [None, 3])
    with fails("carry: loop `i` does not go over the elements that `Y` runs along, or its terms are split"):
        sch.carry(i)
    sch = schedule(ROWS)
    b, i, j, k = loops_of(sch, "Y")
    sch.reorder(k, i)
    with fails("carry: loop `k` over terms is around loop `i`", "reorder `i` outside of `k`"):
        sch.carry(i)
    sch = schedule(ROWS)
    b, i, j, k = loops_of(sch, "Y")
    sch.vectorize(b, lanes=2)
    with fails("carry: loop `b` around it is vectorized", "vectorize a loop inside it"):
        sch.carry(i)


def test_a_loop_around_two_blocks() -> None:
    sch = schedule(READ)
    sch.compute_at(sch.get_block("Y"), loops_of(sch, "Z")[0])
    (outer, *_) = loops_of(sch, "Y")
    with fails(f"carry: 2 blocks are inside loop `{outer.label}`", "carry a loop around one block alone"):
        sch.carry(outer)


def test_what_does_not_go_with_a_carried_loop() -> None:
    sch = carried()
    b, i, k, _ = loops_of(sch, "Y")
    with fails("carry: loop `i` is carried", "carry it before deciding how it runs"):
        sch.carry(i)
    with fails("parallel: loop `i` is carried"):
        sch.parallel(i)
    with fails("split: loop `k` is carried"):
        sch.split(k, [None, 2])
    with fails("vectorize: loop `i` inside it is carried"):
        sch.vectorize(b, lanes=2)
    why = "elements of block `Y` go on from one another along loop `i`"
    with fails(f"rfactor: {why}", "rfactor instead of carry"):
        sch.rfactor(k)
    with fails(f"decompose_reduction: {why}", "decompose_reduction instead of carry"):
        sch.decompose_reduction(sch.get_block("Y"), k)
    sch = carried(READ, "ikj")
    with fails(f"fuse_reduction_epilogue: {why}", "fuse_reduction_epilogue instead of carry"):
        sch.fuse_reduction_epilogue(sch.get_block("Y"), sch.get_block("Z"))
