from __future__ import annotations

import pytest

from benchmarks.task_schedulers import Course, goal_seconds, kernel_seconds, trials_until

WEIGHTS = {"a": 2.0, "b": 1.0}


def test_a_task_counts_with_its_guess_until_it_is_measured() -> None:
    course = Course(({"a": 5.0}, {"a": 3.0}, {"a": 3.0, "b": 4.0}, {"a": 3.0, "b": 1.0}), 1.0)
    assert course.first == {"a": 5.0, "b": 4.0}
    assert kernel_seconds(course, course.first, WEIGHTS) == [14.0, 14.0, 10.0, 10.0, 7.0]


def test_a_task_that_only_the_other_run_measured_counts_too() -> None:
    course = Course(({"a": 5.0},), 1.0)
    assert kernel_seconds(course, {"a": 5.0, "b": 4.0}, WEIGHTS) == [14.0, 14.0]


def test_the_trials_until_a_share_of_the_gain() -> None:
    totals = [14.0, 14.0, 10.0, 10.0, 7.0]
    assert goal_seconds(totals, 0.5) == pytest.approx(10.5)
    assert trials_until(totals, goal_seconds(totals, 0.5)) == 2
    assert trials_until(totals, goal_seconds(totals, 1.0)) == 4
    assert trials_until(totals, 6.0) is None
