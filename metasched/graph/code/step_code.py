"""Machine code of a task as data: its arguments and its bytes. Nothing here compiles."""

from __future__ import annotations

from enum import Enum

from metasched.support.data_classes import dataclass


class StepArgumentKind(Enum):
    """What a step's argument is."""

    INPUT = "input"  # of the program, by its number
    OUTPUT = "output"
    PACKED = "packed"  # a result of the prologue


@dataclass(frozen=True)
class StepArgument:
    """An argument of a step: what it is, its number among those of its kind, and the bytes that it takes."""

    kind: StepArgumentKind
    number: int
    nbytes: int


@dataclass(frozen=True)
class StepCode:
    """Machine code of a step, which has `metasched_step`, and its arguments in order."""

    arguments: tuple[StepArgument, ...]
    data: bytes
    workspace_bytes: int
    parallel: bool

    def numbers(self, kind: StepArgumentKind) -> tuple[int, ...]:
        """The numbers of the arguments of a kind."""
        return tuple(a.number for a in self.arguments if a.kind is kind)


@dataclass(frozen=True)
class TaskCode:
    """Machine code of a task.

    Attributes:
        main: what a call of the network runs.
        prologue: what is run once for the constants of each node, where there is something to compute of them alone.
        origin: where the schedule comes from.
        trace: the schedule as text; None is the program as it is written.
        is_stopgap: whether it stands in for the code of the schedule, which could not be made this time; it is not kept
            on disk then.

    """

    main: StepCode
    prologue: StepCode | None
    origin: str
    trace: str | None
    is_stopgap: bool = False
