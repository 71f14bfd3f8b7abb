"""The gradient scheduler: what is worth most is next, nothing below what is possible is hoped for."""

from __future__ import annotations

from math import inf

import pytest

from metasched.search.scheduler_registry import SchedulerInputs
from metasched.search.schedulers.gradient import Gradient, GradientConfig
from metasched.search.schedulers.round_robin import RoundRobin
from metasched.search.several_tasks.task_progress import Course, TaskFacts, TaskProgress

SURE = GradientConfig(epsilon=0.0)


def task(number: int, *course: tuple[int, float], least: float = 1e-6, kind: str = "", **more: object) -> TaskProgress:
    facts = TaskFacts(int(more.get("operations", 1000)), least, kind or str(number))  # type: ignore[call-overload]
    known: Course = course
    return TaskProgress(number, bool(more.get("is_open", True)), lambda: facts, lambda: known)


def gradient(*weights: float, config: GradientConfig = SURE) -> Gradient:
    return Gradient(SchedulerInputs([dict(enumerate(weights))]), config)


def test_what_runs_often_is_first() -> None:
    tasks = [task(0, (16, 1e-3)), task(1, (16, 1e-3)), task(2, (16, 1e-3))]
    assert gradient(1, 3, 2).next(tasks, None) == 1


def test_what_is_not_measured_is_expected_as_far_from_its_limit_as_the_others() -> None:
    measured = task(0, (16, 4e-3), least=1e-3)
    light, heavy = task(1, least=1e-6), task(2, least=2e-3)
    tasks = [measured, light, heavy]
    assert gradient(1, 1, 1).next(tasks, None) == 2
    assert gradient(1, 1, 1).gains(tasks)[2] == pytest.approx(4 * 2e-3 - 2e-3), "all down to the limit is hoped for"
    assert gradient(1, 1, 1).next([measured, light], None) == 0, (
        "a light task waits until a heavy one has had its share"
    )


def test_the_first_round_begins_with_the_heaviest() -> None:
    tasks = [task(n, least=least) for n, least in enumerate([2e-4, 1e-3, 5e-4])]
    order = []
    for _ in tasks:
        order.append(gradient(1, 1, 3).next(tasks, None))
        tasks[order[-1] or 0] = task(order[-1] or 0, (9, 1e-9), least=1e-9)
    assert order == [2, 1, 0]


def test_a_task_at_its_limit_gets_nothing() -> None:
    done, left = task(0, (64, 1e-3), least=1e-3), task(1, (64, 1e-5), least=9e-6)
    assert gradient(100, 1).next([done, left], None) == 1
    assert gradient(100, 0).next([done, left], None) is None


def test_what_keeps_gaining_is_preferred_and_what_stopped_gaining_is_left() -> None:
    gaining = task(0, (16, 4e-3), (64, 2e-3), (96, 1e-3))
    stuck = task(1, (16, 1e-3), (64, 1e-3), (96, 1e-3))
    gains = gradient(1, 1).gains([gaining, stuck])
    assert gains == pytest.approx([0.2 * (4e-3 - 1e-3) / 3 + 0.8 * 1e-3 / 6, 0.8 * 1e-3 / 6])
    longer = task(1, (16, 1e-3), (640, 1e-3))
    assert gradient(1, 1).gains([gaining, longer])[1] < gains[1]


def test_a_task_may_become_half_as_fast_as_another_of_its_structure() -> None:
    fast = task(0, (320, 1e-4), kind="matmul")
    slow = task(1, (320, 1e-3), kind="matmul")
    other = task(1, (320, 1e-3), kind="softmax")
    assert gradient(0, 1).gains([fast, slow])[1] == pytest.approx(0.8 * (1e-3 - 2e-4))
    assert gradient(0, 1).gains([fast, other])[1] == pytest.approx(0.8 * 1e-3 / 20)


def test_a_task_of_which_everything_failed_is_tried_again_later() -> None:
    failed, more = task(0, (16, inf), least=1e-5), task(0, (320, inf), least=1e-5)
    fine = task(1, (16, 1e-3), least=1e-4)
    assert gradient(1, 1).next([failed, fine], None) == 1
    assert 0 < gradient(1, 1).gains([more, fine])[0] < gradient(1, 1).gains([failed, fine])[0]


def test_closed_tasks_are_passed_over_and_the_end_is_said() -> None:
    closed, left = task(0, (16, 1e-3), is_open=False), task(1, (16, 1e-4))
    assert gradient(9, 1).next([closed, left], 0) == 1
    assert gradient(9, 1).next([closed], 0) is None


def test_now_and_then_a_random_task_is_taken_the_same_by_the_same_seed() -> None:
    tasks = [task(0, (16, 1e-3)), task(1, (16, 1e-6), least=1e-7)]
    always = GradientConfig(epsilon=1.0)

    def choices(seed: int) -> list[int | None]:
        each = ([task(0, (n, 1e-3)), tasks[1]] for n in range(1, 40))
        return [Gradient(SchedulerInputs([{0: 1.0, 1: 1.0}], seed=seed), always).next(some, None) for some in each]

    assert choices(0) == choices(0)
    assert choices(0) != choices(1)
    assert set(choices(0)) == {0, 1}


def test_round_robin_goes_on_after_the_last_and_passes_over_what_is_closed() -> None:
    tasks = [task(0), task(1, is_open=False), task(2)]
    assert [RoundRobin().next(tasks, last) for last in (None, 0, 1, 2)] == [0, 2, 2, 0]
    assert RoundRobin().next(tasks[1:2], None) is None
