"""What a second of each task is worth by the four objectives."""

from __future__ import annotations

import pytest

from metasched.errors import MetaschedError
from metasched.search.several_tasks.objectives import (
    EarlyStopping,
    GeometricMean,
    LatencyRequirement,
    SumOfLatencies,
    objective_of,
)
from metasched.search.several_tasks.task_progress import Course, TaskFacts, TaskProgress

NETWORKS = [{0: 2.0, 1: 1.0}, {1: 3.0}]


def task(number: int, *course: tuple[int, float]) -> TaskProgress:
    known: Course = course
    return TaskProgress(number, True, lambda: TaskFacts(1, 1e-4, ""), lambda: known)


# The networks take 2 * 1 ms + 2 ms = 4 ms, and 3 * 2 ms = 6 ms.
TASKS = [task(0, (16, 1e-3)), task(1, (16, 2e-3), (64, 2e-3))]


def test_the_sum_counts_runs() -> None:
    assert SumOfLatencies().worth(TASKS, NETWORKS) == [2, 4]


@pytest.mark.parametrize(
    ("seconds", "worth"), [(5e-3, [0, 3]), (7e-3, [0, 0]), ((3e-3, 7e-3), [2, 1]), ((1e-3, 1e-3), [2, 4])]
)
def test_a_network_that_meets_its_requirement_is_left_alone(
    seconds: float | tuple[float, ...], worth: list[float]
) -> None:
    assert LatencyRequirement(seconds).worth(TASKS, NETWORKS) == worth


def test_what_is_only_expected_to_meet_a_requirement_is_measured_first() -> None:
    networks = [{0: 1.0, 1: 1.0}]
    light = TaskProgress(1, True, lambda: TaskFacts(1, 1e-6, ""), lambda: ())
    assert LatencyRequirement(1.0).worth([TASKS[0], task(1)], networks) == [1, 1]
    assert LatencyRequirement(1.0).worth([TASKS[0], light], networks) == [0, 0]


def test_a_second_of_a_fast_network_counts_more_for_the_mean_of_speed_ups() -> None:
    assert GeometricMean().worth(TASKS, NETWORKS) == pytest.approx([2 / 4e-3, 1 / 4e-3 + 3 / 6e-3])


def test_what_is_not_measured_counts_as_it_is_expected() -> None:
    assert GeometricMean().worth([TASKS[0], task(1)], [{0: 1.0, 1: 1.0}]) == pytest.approx([1 / 2e-3, 1 / 2e-3])


def test_a_task_without_gains_for_some_time_is_worth_nothing() -> None:
    assert EarlyStopping(trials=48).worth(TASKS, NETWORKS) == [2, 0]
    assert EarlyStopping(trials=49).worth(TASKS, NETWORKS) == [2, 4]


def test_objectives_have_names() -> None:
    assert objective_of("geomean") == GeometricMean()
    assert objective_of("latency=0.003") == LatencyRequirement(0.003)
    assert objective_of(EarlyStopping(7)) == EarlyStopping(7)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("product", "there is no objective `product`; there are sum, geomean, early_stopping and latency=SECONDS"),
        ("latency=fast", "requires a latency in seconds"),
        ("latency=-1", "in seconds and positive"),
    ],
)
def test_what_is_no_objective_is_said(given: str, said: str) -> None:
    with pytest.raises(MetaschedError, match=said):
        objective_of(given)


def test_a_requirement_for_each_network_is_one_for_each() -> None:
    with pytest.raises(MetaschedError, match="3 latencies are required, and there are 2 networks"):
        LatencyRequirement((1.0, 1.0, 1.0)).worth(TASKS, NETWORKS)
