"""Task schedulers by name: ours, a file each in `schedulers/`, and those of other packages (`metasched.schedulers`).

A scheduler says which task of a session is measured next. It sees how far each is, and keeps nothing: so a session that
is resumed goes on as if it had not ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias

from metasched.errors import MetaschedError
from metasched.search.several_tasks.objectives import Objective, SumOfLatencies, Weights
from metasched.search.several_tasks.task_progress import TaskProgress
from metasched.support.data_classes import dataclass
from metasched.support.registry import Product, Registry, checked_function

GROUP = "metasched.schedulers"
DEFAULT_SCHEDULER = "round_robin"
NETWORK_SCHEDULER = "gradient"


class TaskScheduler(Protocol):
    """Chooses the next task."""

    def next(self, tasks: Sequence[TaskProgress], last: int | None) -> int | None:
        """The number of the task to measure next, one that is open; None to end the session.

        `last` is that of the task before, None at the start of a session.
        """
        ...


@dataclass(frozen=True)
class SchedulerInputs:
    """What a scheduler is made from.

    Attributes:
        networks: how often each network runs its tasks, by their numbers.
        objective: what is minimised.
        seed: with the recorded times, decides every choice.
    """

    networks: Sequence[Weights]
    objective: Objective = field(default_factory=SumOfLatencies)
    seed: int = 0


MakeScheduler: TypeAlias = Callable[[SchedulerInputs], TaskScheduler]


def _require_maker(value: object) -> MakeScheduler:
    return checked_function(value, "SchedulerInputs", "the SchedulerInputs")


SCHEDULERS = Registry(
    GROUP,
    "task scheduler",
    _require_maker,
    MetaschedError,
    package="metasched.search.schedulers",
    attribute="scheduler",
    product=Product("SchedulerInputs", ("next",), "return an object with `next(tasks, last)`, the number of a task"),
)
