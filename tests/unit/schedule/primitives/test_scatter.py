from __future__ import annotations

import pytest

from tests.support.schedules import checked, fails, loops_of, schedule, vars_of
from tests.support.structural import body

COUNTS = """
program counts[H=5, W=7, V=9](X: u8[H, W]) -> N: i32[V]:
    count: N[v < V] = sum[i, j if i64(X[i, j]) == v](i32(1))
"""
ROWS = """
program rows[T=11, V=6, D=5](K: i32[T], G: f32[T, D]) -> S: f32[V, D]:
    add: S[v < V, d] = sum[t if K[t] == i32(v) - 1](G[t, d])
"""
CELLS = """
program cells[N=4, S=6, Z=5](X: i32[N, S], Y: i32[N, S]) -> C: i32[N, Z]:
    before: B[n, s] = X[n, s] + Y[n, s]
    most: C[n, z < Z] = max[s if Y[n, s] > 0 and B[n, s] + i32(n) == i32(z)](Y[n, s])
"""
JOINT = """
program joint[N=40](A: i64[N], B: u8[N]) -> S: i32[3, 5]:
    count: S[a < 3, b < 5] = sum[n if A[n] == a and i64(B[n]) % 5 == b](i32(1))
"""
TABLE = """
program table[T=7, V=5, D=6](K: i64[T], W: f32[V, D]) -> Y: f32[T, D]:
    Y[t, d] = sum[v if K[t] == v](W[v, d])
"""
SEGMENTS = """
program segments[N=3, T=4](K: i64[N], A: f32[N, T]) -> S: f32[N, 5]:
    add: S[n, v] = sum[t if K[n] == v](A[n, t])
"""


def test_a_histogram() -> None:
    sch = schedule(COUNTS)
    v, i, j = loops_of(sch, "count")
    sch.reorder(i, j, v)
    sch.scatter(v)
    assert "scattered v in 9:" in body(sch.func)
    checked(sch)


def test_rows_are_added_whole() -> None:
    sch = schedule(ROWS)
    v, d, t = loops_of(sch, "add")
    sch.reorder(t, v, d)
    sch.scatter(v)
    sch.vectorize(d, lanes=4)
    checked(sch)


def test_conditions_before_the_place_and_indices_that_decide_it() -> None:
    sch = schedule(CELLS)
    n, z, s = loops_of(sch, "most")
    sch.reorder(n, s, z)
    sch.scatter(z)
    sch.parallel(n)
    checked(sch)


def test_partial_results_for_threads() -> None:
    sch = schedule(COUNTS)
    v, i, _ = loops_of(sch, "count")
    strip, within = sch.split(i, [2, None])
    part = sch.rfactor(strip)
    v, _, _, j = sch.get_loops(part)
    sch.reorder(strip, within, j, v)
    sch.scatter(v)
    sch.parallel(strip)
    checked(sch)


def test_after_the_start_is_a_block_of_its_own_no_loop_of_terms_is_needed_around() -> None:
    sch = schedule(ROWS, T=1)
    v, _, t = loops_of(sch, "add")
    sch.decompose_reduction(sch.get_block("add"), v)
    sch.reorder(t, v)
    sch.scatter(v)
    checked(sch)


def test_elements_are_started_at_all_places() -> None:
    sch = schedule(COUNTS)
    v, i, j = loops_of(sch, "count")
    sch.reorder(i, j, v)
    sch.scatter(v)
    sch.decompose_reduction(sch.get_block("count"), i)
    assert body(sch.func).count("scattered") == 1, "where elements start, all of them do"
    checked(sch)


@pytest.mark.parametrize(
    "cond",
    [
        "K[t] > v",
        "K[t] == v + v",
        "K[t] + v == v",
        "K[t] == K[v]",
        "K[t] != v",
        "t + v < 9 and K[t] == v",
    ],
)
def test_no_place(cond: str) -> None:
    text = f"program p[T=5](K: i64[T]) -> S: i64[T]:\n    add: S[v] = sum[t if {cond}](K[t])\n"
    sch = schedule(text)
    v, t = loops_of(sch, "add")
    sch.reorder(t, v)
    with fails(
        "scatter: no condition of block `add` says at which `v` a term is",
        "write the sum under a condition that a place equals `v`",
    ):
        sch.scatter(v)


def test_a_type_that_does_not_hold_the_places_is_no_place() -> None:
    """i8(v) is v only up to 127."""
    text = "program p[T=5, V=200](K: i8[T]) -> S: i64[V]:\n    add: S[v < V] = sum[t if K[t] == i8(v)](1)\n"
    for places, message in ((100, None), (200, "scatter: no condition of block `add` says at which `v` a term is")):
        sch = schedule(text, V=places)
        v, t = loops_of(sch, "add")
        sch.reorder(t, v)
        if message is None:
            sch.scatter(v)
            checked(sch)
        else:
            with fails(message):
                sch.scatter(v)


def test_a_reduction_loop_inside() -> None:
    sch = schedule(COUNTS)
    v, *_ = loops_of(sch, "count")
    with fails("scatter: loop `i` inside changes the place of a term", "reorder `i` outside of `v`"):
        sch.scatter(v)


def test_a_loop_of_terms_of_which_one_is_there() -> None:
    sch = schedule(TABLE)
    t, d, v = loops_of(sch, "Y")
    sch.reorder(t, v, d)
    sch.scatter(v)
    sch.vectorize(d, lanes=4)
    checked(sch)


def test_two_places_at_once() -> None:
    sch = schedule(JOINT)
    a, b, n = loops_of(sch, "count")
    sch.reorder(n, a, b)
    sch.scatter(b)
    sch.scatter(a)
    checked(sch)


def test_no_loop_of_the_reduction_around() -> None:
    sch = schedule(SEGMENTS)
    _, v, t = loops_of(sch, "add")
    with fails(
        "scatter: no loop of the reduction of block `add` is around loop `v`",
        "reorder a loop of the reduction outside of it",
    ):
        sch.scatter(v)
    sch.reorder(t, v)
    sch.scatter(v)
    checked(sch)


def test_part_of_a_variable() -> None:
    sch = schedule(COUNTS)
    v, i, j = loops_of(sch, "count")
    sch.reorder(i, j, v)
    outer, _ = sch.split(v, [None, 4])
    with fails(
        "scatter: loop `v_0` does not go over a whole iteration variable of block `count`",
        "scatter a loop that was not split or fused",
    ):
        sch.scatter(outer)


def test_several_blocks() -> None:
    sch = schedule(CELLS)
    n, *_ = loops_of(sch, "most")
    sch.compute_at(sch.get_block("before"), n)
    name = vars_of(sch, "most")[0]
    with fails(f"scatter: 2 blocks are inside loop `{name}`", "scatter a loop around one block alone"):
        sch.scatter(n)


def test_loops_that_are_decided() -> None:
    sch = schedule(ROWS)
    v, d, t = loops_of(sch, "add")
    sch.reorder(d, t, v)
    sch.vectorize(d, lanes=4)
    hint = "leave `d` serial: lanes of a scattered loop are those of a loop inside it"
    with fails("scatter: loop `d` around it is vectorized", hint):
        sch.scatter(v)
    sch = schedule(ROWS)
    v, d, t = loops_of(sch, "add")
    sch.reorder(t, v, d)
    sch.parallel(d)
    hint = "rfactor a loop of the reduction first, and parallel that"
    with fails("scatter: loop `d` inside it is parallel", hint):
        sch.scatter(v)


def test_what_does_not_go_with_a_scattered_loop() -> None:
    sch = schedule(ROWS)
    v, d, t = loops_of(sch, "add")
    sch.reorder(t, v, d)
    sch.scatter(v)
    with fails("scatter: loop `v` is scattered", "scatter it before deciding how it runs"):
        sch.scatter(v)
    with fails("reorder: other loops would be around scattered loop `v`", "reorder before scatter"):
        sch.reorder(v, t)
    with fails("parallel: loop `v` around it is scattered", "parallel a loop around `v` instead"):
        sch.parallel(d)
    sch = schedule(CELLS)
    n, z, s = loops_of(sch, "most")
    sch.reorder(n, s, z)
    sch.scatter(z)
    with fails("compute_at: loop `z` is scattered", "compute_at before deciding how it runs"):
        sch.compute_at(sch.get_block("before"), z)
    with fails("vectorize: loop `z` inside it is scattered"):
        sch.vectorize(n, lanes=4)
