"""What decides how a task is scheduled: a trace that is known for it, or that it runs as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias

from metasched.ir.nodes import Func
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass

AS_WRITTEN = "as written"
GUESSED = "guess"
TUNED = "tuned"


@dataclass(frozen=True)
class Choice:
    """The schedule of a task.

    Attributes:
        trace: it applies to the program of the task's first node; None is the program as it is written.
        origin: where it comes from, for a person: `tuned`, `guess: the expert trace matmul.packed`.
        func: what the trace makes of the one program that it was chosen for, where it has been applied to that.

    """

    trace: Trace | None
    origin: str
    func: Func | None = field(default=None, compare=False, repr=False)


# Choices by the keys of `Graph.tasks`; a task without one is guessed.
Choices: TypeAlias = Mapping[str, Choice]

NO_CHOICES: Choices = MappingProxyType({})
