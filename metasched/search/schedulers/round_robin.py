"""The scheduler `round_robin`: one task after another, in their order; the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.search.scheduler_registry import SchedulerInputs, TaskScheduler
from metasched.search.several_tasks.task_progress import TaskProgress


class RoundRobin:
    """Tasks take turns, a batch each."""

    def next(self, tasks: Sequence[TaskProgress], last: int | None) -> int | None:
        first = 0 if last is None else last + 1
        order = (tasks[(first + n) % len(tasks)] for n in range(len(tasks)))
        return next((task.number for task in order if task.is_open), None)


def scheduler(given: SchedulerInputs) -> TaskScheduler:
    """The scheduler, which goes by no objective."""
    return RoundRobin()
