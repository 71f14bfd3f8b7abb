from __future__ import annotations

import pytest

from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.schedule.trace import Schedule
from tests.support.programs import DENSE_RELU, ROWS
from tests.support.schedules import checked, fails, lines, loops_of, schedule
from tests.support.structural import body

IMAGE = """
program image[N=5, M=7, K=3](A: f32[N, M, K]) -> C: f32[N, M, K]:
    twice: C[i, j, k] = A[i, j, k] * 2
"""


def test_two_loops() -> None:
    sch = schedule(IMAGE)
    i, j, _ = loops_of(sch, "twice")
    assert sch.fuse(i, j).label == "i_j"
    assert (
        body(sch.func)
        == """
for i_j, k in grid(35, 3):
    twice: C[i, j, k] = A[i, j, k] * 2.0  with i = i_j // 7, j = i_j % 7
"""
    )
    checked(sch)


def test_all_loops() -> None:
    sch = schedule(IMAGE)
    fused = sch.fuse(*loops_of(sch, "twice"))
    (loop,) = query.loops(sch.func)
    assert (loop.var, as_int(loop.extent)) == (fused.label, 105)
    checked(sch)


def test_one_loop_is_itself() -> None:
    """So that a rule may fuse however many there are."""
    sch = schedule(IMAGE)
    i, *_ = loops_of(sch, "twice")
    before = sch.func
    same = sch.fuse(i)
    assert sch.func is before
    assert same.label == "i"
    assert lines(sch.trace)[-1] == "i = fuse(i)"
    checked(sch)


def test_fusing_what_was_split_gives_it_back() -> None:
    sch = schedule(IMAGE)
    i, *_ = loops_of(sch, "twice")
    sch.fuse(*sch.split(i, [None, 2]))
    (block,) = query.blocks(sch.func)
    assert body(sch.func).splitlines()[1] == "for i_0_i_1, j, k in grid(6, 7, 3):"
    assert len(block.guards) == 1
    checked(sch)


def test_reduction_loops() -> None:
    sch = schedule(DENSE_RELU)
    i, j, k = loops_of(sch, "dense")
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(k1, k0)
    sch.fuse(k1, k0)
    sch.fuse(i, j)
    checked(sch)


def test_notes_of_all_are_kept() -> None:
    sch = schedule(IMAGE)
    i, j, _ = loops_of(sch, "twice")
    sch.annotate(j, "unroll_limit", 4)
    sch.fuse(i, j)
    assert [a.key for a in query.loops(sch.func)[0].annotations] == ["unroll_limit"]


def test_no_loops() -> None:
    with fails("fuse: no loops are given", "give at least one loop"):
        schedule().fuse()


HINT = "reorder first, so that the loops are nested directly in this order"


def nested(sch: Schedule) -> None:
    i, _, k = loops_of(sch, "dense")
    sch.fuse(i, k)


def inside_out(sch: Schedule) -> None:
    i, j, _ = loops_of(sch, "dense")
    sch.fuse(j, i)


def apart(sch: Schedule) -> None:
    sch.fuse(loops_of(sch, "dense")[0], loops_of(sch, "relu")[0])


def twice(sch: Schedule) -> None:
    i, *_ = loops_of(sch, "dense")
    sch.fuse(i, i)


@pytest.mark.parametrize(
    ("step", "inner", "outer"),
    [(nested, "k", "i"), (inside_out, "i", "j"), (apart, "i_relu", "i"), (twice, "i", "i")],
)
def test_loops_that_are_not_nested_directly(step: object, inner: str, outer: str) -> None:
    with fails(f"fuse: loop `{inner}` is not the only child of `{outer}`", HINT):
        step(schedule(DENSE_RELU))  # type: ignore[operator]


def test_loops_with_another_block_between() -> None:
    sch = schedule(ROWS)
    i, k = loops_of(sch, "total")
    sch.reverse_compute_at(sch.get_block("out"), i)
    with fails("fuse: loop `k_total` is not the only child of `i_total`", HINT):
        sch.fuse(i, k)


def test_a_loop_that_is_decided() -> None:
    sch = schedule(IMAGE)
    i, j, k = loops_of(sch, "twice")
    sch.vectorize(k, lanes=4)
    with fails("fuse: loop `k` is vectorized", "fuse it before deciding how it runs"):
        sch.fuse(j, k)
    sch.parallel(i)
    with fails("fuse: loop `i` is parallel", "fuse it before deciding how it runs"):
        sch.fuse(i, j)


def test_a_guard_would_leave_out_partial_results() -> None:
    """Of three tiles of two, the last has a term less, or none: its partial result is to be started all the same."""
    sch = schedule("program total[K=3](A: f32[K]) -> C: f32[1]:\n    total: C[i < 1] = sum[k](A[k])\n")
    _, k = loops_of(sch, "total")
    outer, inner = sch.split(k, [3, 2])
    sch.rfactor(outer)
    with fails(
        "fuse: a guard leaves out terms of `total.rf`, and would leave out elements",
        "decompose_reduction first, or do not fuse loops over elements with those of the reduction",
    ):
        sch.fuse(outer, inner)


def test_tiles_that_fit_leave_nothing_out() -> None:
    sch = schedule("program total[K=6](A: f32[K]) -> C: f32[1]:\n    total: C[i < 1] = sum[k](A[k])\n")
    _, k = loops_of(sch, "total")
    outer, inner = sch.split(k, [3, 2])
    sch.rfactor(outer)
    sch.fuse(outer, inner)
    checked(sch)
