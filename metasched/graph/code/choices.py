"""What decides how a task is scheduled: a trace that is known for it, or that it runs as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from metasched.ir.nodes import Func
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass


class ScheduleOrigin(Enum):
    """Where the schedule of a task comes from."""

    TUNED = "tuned"  # the best of what was measured
    GUESS = "guess"  # chosen without measuring
    OTHER_SIZES = "as at other sizes"  # of the network for other sizes
    AS_WRITTEN = "as written"  # the program has none
    GIVEN = "given"


@dataclass(frozen=True)
class Choice:
    """The schedule of a task.

    Attributes:
        trace: it applies to the program of the task's first node; None is the program as it is written.
        origin: where it comes from.
        detail: more of that, such as the expert trace that was guessed; empty where there is no more.
        func: what the trace makes of the one program that it was chosen for, where it has been applied to that.

    """

    trace: Trace | None
    origin: ScheduleOrigin
    detail: str = ""
    func: Func | None = field(default=None, compare=False, repr=False)

    @property
    def told(self) -> str:
        """Where it comes from, for a person: `as written`, `guess: the expert trace matmul.packed`."""
        return f"{self.origin.value}: {self.detail}" if self.detail else self.origin.value


# Choices by the keys of `Graph.tasks`; a task without one is guessed.
Choices: TypeAlias = Mapping[str, Choice]

NO_CHOICES: Choices = MappingProxyType({})
