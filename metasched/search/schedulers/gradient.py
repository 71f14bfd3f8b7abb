"""The scheduler `gradient`: the task from whose next batch most is expected.

It is the gradient descent of Ansor (Zheng et al. 2020, section 6.2 and appendix A). How fast a task's time g falls with
the trials t spent on it is estimated from two sides. What was achieved: (g(t - w) - g(t)) / w, over a window w. And an
optimistic guess of what is to come: that as many trials again take the time to nothing, g / t, or that the task may get
`beta` times as close to the speed of the fastest task of the same structure as it would at that speed. Their mean, with
weights alpha and 1 - alpha, times what a second of the task is worth to the objective, ranks the tasks. Now and then a
random one is taken.

It differs from the paper in three things. No guess goes below what no schedule is expected to reach, so that a task at
the limit of the machine gets nothing. The first round, a batch for each task, begins with the heaviest and leaves out
what hardly counts, by the times that are expected: a short run helps what matters most, and a light task may never be
measured. And a batch is no unit, as batches differ: trials are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from metasched.search.scheduler_registry import SchedulerInputs, TaskScheduler
from metasched.search.several_tasks.task_progress import TaskProgress, expected_seconds
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class GradientConfig:
    """The paper's parameters.

    `alpha` is the weight of what was achieved over the last `window` units of `unit` trials; `beta` how many times as
    long as at the speed of the fastest task of its structure a task is taken to need in the end; `epsilon` the share of
    random choices. What is expected to be less than the share `light` of the objective is not in the first round.
    """

    alpha: float = 0.2
    beta: float = 2.0
    epsilon: float = 0.05
    window: int = 3
    unit: int = 16
    light: float = 0.005


class Gradient:
    """Chooses by the estimated gradient of an objective."""

    def __init__(self, given: SchedulerInputs, config: GradientConfig | None = None) -> None:
        self._given = given
        self._config = config or GradientConfig()

    def next(self, tasks: Sequence[TaskProgress], last: int | None) -> int | None:
        first = self._first_unmeasured(tasks)
        if first is not None:
            return first
        gains = self.gains(tasks)
        worth = [n for n, task in enumerate(tasks) if task.is_open and gains[n] > 0]
        if not worth:
            return None
        rng = np.random.default_rng([self._given.seed, sum(task.trials for task in tasks)])
        if rng.random() < self._config.epsilon:
            return tasks[worth[int(rng.integers(len(worth)))]].number
        return tasks[max(worth, key=lambda n: gains[n])].number

    def _first_unmeasured(self, tasks: Sequence[TaskProgress]) -> int | None:
        """The heaviest task that was not measured yet, if there is one that is not light."""
        worth = self._given.objective.worth(tasks, self._given.networks)
        parts = [value * seconds for value, seconds in zip(worth, expected_seconds(tasks), strict=True)]
        least = self._config.light * sum(parts)
        new = [n for n, task in enumerate(tasks) if task.is_open and not task.course and parts[n] > least]
        return tasks[max(new, key=lambda n: parts[n])].number if new else None

    def gains(self, tasks: Sequence[TaskProgress]) -> list[float]:
        """How much of the objective a unit of trials is expected to bring, for each task."""
        worth = self._given.objective.worth(tasks, self._given.networks)
        seconds, speeds = expected_seconds(tasks), self._speeds(tasks)
        falls = [self._falls(task, now, speeds) for task, now in zip(tasks, seconds, strict=True)]
        return [value * fall for value, fall in zip(worth, falls, strict=True)]

    def _falls(self, task: TaskProgress, now: float, speeds: Mapping[str, tuple[float, int]]) -> float:
        """The seconds by which a task's time, which is `now`, is expected to fall in a unit of trials."""
        config = self._config
        units = max(task.trials / config.unit, 1.0)
        fastest, alike = speeds.get(task.facts.kind, (0.0, 0))
        guesses = [now - now / units]
        if alike > 1 and task.facts.operations:
            guesses.append(config.beta * task.facts.operations / fastest)
        forward = max(now - max(min(guesses), task.facts.least_s), 0.0)
        if not task.course:
            return forward
        window = min(config.window, units)
        before = task.best_at(task.trials - config.window * config.unit)
        achieved = max(before - now, 0.0) / window if before < inf else 0.0
        return config.alpha * achieved + (1 - config.alpha) * forward

    def _speeds(self, tasks: Sequence[TaskProgress]) -> dict[str, tuple[float, int]]:
        """The operations a second of the fastest task of each structure, and how many of its tasks were measured."""
        found: dict[str, tuple[float, int]] = {}
        for task in tasks:
            if task.best_s < inf:
                fastest, count = found.get(task.facts.kind, (0.0, 0))
                found[task.facts.kind] = max(fastest, task.facts.operations / task.best_s), count + 1
        return found


def scheduler(given: SchedulerInputs) -> TaskScheduler:
    """The scheduler with the paper's parameters."""
    return Gradient(given)
