"""Instances of small programs, counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

import metasched as ms
from metasched.ir import query
from metasched.ir.coverage import coverage_violations
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Func, LoopKind
from metasched.schedule.trace import Schedule

FAR = 1442695040888963407


def test_places_beyond_64_bits_are_counted() -> None:
    """A tile of 16 where there is one element: its last place is 15 times as far as an index may be."""
    p = ms.parse_program(
        f"program far(X: i64[3]) -> Y: i64[3, 1]:\n"
        f"    Y[i < 3, j < 1] = X[j * {FAR}] if j * {FAR} >= 0 and j * {FAR} < 3 else 5\n"
    )
    schedule = ms.Schedule(p)
    block = schedule.get_block("Y")
    _, j = schedule.get_loops(block)
    outer, _ = schedule.split(j, [None, 16])
    schedule.decompose_padding(block, outer)
    assert list(coverage_violations(schedule.func)) == []


def vectorized(func: Func, loop: str, lanes: int) -> Func:
    """The program with a loop in lanes, whether or not that is right."""
    old = query.find_loop(func, loop)
    return query.replace_stmt(func, old, replace(old, kind=LoopKind.VECTORIZED, lanes=const(lanes)))


def sums_of_windows(reducer: str = "sum") -> Schedule:
    """What windows of three read, under the loop over windows: loops `y`, `i_sums` over elements and `k` over terms."""
    schedule = ms.Schedule(
        ms.parse_program(
            f"program p(A: f32[14, 4]) -> C: f32[12]:\n    sums: B[i] = {reducer}[k](A[i, k])\n"
            f"    near: C[y] = B[y] + B[y + 1] + B[y + 2]\n"
        )
    )
    near, sums = (schedule.get_block(name) for name in ("near", "sums"))
    schedule.compute_at(sums, *schedule.get_loops(near))
    return schedule


TWICE = "loop `y` is vectorized: lanes add a term twice to elements of `B` in `sums`"


@pytest.mark.parametrize(("lanes", "found"), [(1, []), (2, [TWICE]), (4, [TWICE])])
def test_lanes_add_terms_to_what_others_have_begun(lanes: int, found: list[str]) -> None:
    schedule = sums_of_windows()
    _, r, k = schedule.get_loops(schedule.get_block("sums"))
    assert list(coverage_violations(vectorized(schedule.func, "y", lanes))) == []
    schedule.reorder(k, r)
    assert list(coverage_violations(vectorized(schedule.func, "y", lanes))) == found


def test_sums_that_begin_before_the_loop_over_elements() -> None:
    schedule = sums_of_windows()
    _, r, k = schedule.get_loops(schedule.get_block("sums"))
    inner = schedule.fork(schedule.handler)
    inner.decompose_reduction(inner.get_block("sums"), k)
    assert list(coverage_violations(vectorized(inner.func, "y", 4))) == []
    schedule.decompose_reduction(schedule.get_block("sums"), r)
    assert list(coverage_violations(vectorized(schedule.func, "y", 4))) == [TWICE]


def test_parts_of_a_loop_over_elements_inside_the_reduction() -> None:
    schedule = sums_of_windows()
    _, r, k = schedule.get_loops(schedule.get_block("sums"))
    schedule.reorder(k, r)
    _, rest = schedule.loop_partition(r, [1])
    schedule.loop_partition(rest, [1])
    assert TWICE in list(coverage_violations(vectorized(schedule.func, "y", 4)))


def test_a_maximum_takes_a_term_twice() -> None:
    schedule = sums_of_windows("max")
    _, r, k = schedule.get_loops(schedule.get_block("sums"))
    schedule.reorder(k, r)
    assert list(coverage_violations(vectorized(schedule.func, "y", 4))) == []
