"""When a run ends: after so many trials, so many seconds, or so many trials without a gain."""

from __future__ import annotations

import sys
import time

from metasched.errors import MetaschedError
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_integer, is_number


@dataclass(frozen=True)
class Goal:
    """When to end; None is never.

    Attributes:
        trials: at so many trials of the task, failures and earlier ones included.
        until: at a time of `time.perf_counter`.
        total: at so many trials of a session's tasks together.
        patience: of a task, after so many trials without one that is faster by more than noise.
        deadline: the time at which what is under way is given up, a little after `until`.
        pause: a trial of the task; the step that comes to it ends there, in the midst of its batch.

    """

    trials: int | None = None
    until: float | None = None
    total: int | None = None
    patience: int | None = None
    deadline: float | None = None
    pause: int | None = None

    @property
    def wanted_trials(self) -> int:
        return sys.maxsize if self.trials is None else self.trials

    @property
    def wanted_total(self) -> int:
        return sys.maxsize if self.total is None else self.total

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.perf_counter() >= self.until


def goal_of(trials: int | None, budget: float | None, patience: int | None = None) -> Goal:
    """When a run that begins now ends. Raises MetaschedError if none of them is given, or one is not positive."""
    if trials is None and budget is None and patience is None:
        raise MetaschedError(
            "say when to end: `trials`, how many measurements to have, `budget`, seconds, or `patience`, how many "
            "trials without a gain"
        )
    if patience is not None and not (is_integer(patience) and patience > 0):
        raise MetaschedError(f"patience is {patience!r}; it is how many trials may be made without a gain, such as 100")
    if trials is not None and not is_integer(trials):
        raise MetaschedError(f"trials is {trials!r}; it is how many measurements to have, such as 64")
    if trials is not None and trials < 1:
        raise MetaschedError(f"trials is {trials}; at least one measurement is needed")
    if budget is not None and not (is_number(budget) and 0 < budget < float("inf")):
        raise MetaschedError(f"budget is {budget!r}; it is how many seconds to go on, such as 60")
    return Goal(trials, None if budget is None else time.perf_counter() + budget, patience=patience)
