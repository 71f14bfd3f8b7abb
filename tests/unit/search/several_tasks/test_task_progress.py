"""How far tasks are: their best times and what is expected of those that have none."""

from __future__ import annotations

from math import inf

import pytest

from metasched.lang import parse_program
from metasched.search.several_tasks.task_progress import Course, TaskFacts, TaskProgress, expected_seconds
from tests.support.toy_search import TARGET

MATMUL = "program p[N=64](A: f32[N, N], const B: f32[N, N]) -> C: f32[N, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"


def task(least: float, *course: tuple[int, float]) -> TaskProgress:
    known: Course = course
    return TaskProgress(0, True, lambda: TaskFacts(1, least, ""), lambda: known)


def test_the_best_time_of_earlier() -> None:
    one = task(1e-6, (9, inf), (16, 4e-3), (24, 3e-3), (32, 3e-3))
    assert (one.trials, one.best_s, one.since_gain) == (32, 3e-3, 8)
    assert [one.best_at(trials) for trials in (-5, 16, 23, 24)] == [inf, 4e-3, 4e-3, 3e-3]
    assert (task(1e-6).trials, task(1e-6).best_s) == (0, inf)


def test_what_is_not_measured_is_expected_by_the_median_of_the_others() -> None:
    measured = [task(1e-3, (9, 2e-3)), task(1e-3, (9, 3e-3)), task(1e-3, (9, 30e-3))]
    assert expected_seconds([*measured, task(1e-5)])[3] == pytest.approx(3e-5)
    assert expected_seconds([task(1e-5)])[0] > 1e-5
    assert expected_seconds([task(1e-5, (9, inf)), task(1e-3, (9, 1e-4))])[0] == 1e-5, "never below the limit"


def test_facts_of_a_program() -> None:
    small, large = (TaskFacts.of_program(parse_program(MATMUL, N=n), TARGET) for n in (64, 128))
    assert small.operations == 2 * 64**3
    assert small.kind == large.kind
    assert large.least_s == pytest.approx(8 * small.least_s)
    copy = parse_program("program c[N=65536](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n")
    assert TaskFacts.of_program(copy, TARGET).least_s > 1e-6, "bytes take their time, too"
