"""How far each task of a session is: what schedulers and objectives go by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from statistics import median
from typing import TypeAlias

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.expectation import least_cycles
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Buffer
from metasched.ir.program import Program
from metasched.knowledge.anchor import anchor_of
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.target import Target

# A clock by which cycles of estimates are seconds: what a CPU's own is, no target says.
_CLOCK_HZ = 3e9
# A task that was not measured is expected to take so many times as long as no schedule can be faster than, where no
# other task was measured.
_USUAL_RATIO = 2.0


@dataclass(frozen=True)
class TaskFacts:
    """What is known of a task before anything is measured.

    Attributes:
        operations: arithmetic operations of a call.
        least_s: the seconds of a call that no schedule is expected to go below: of its arithmetic, and of its arguments
            from the last cache.
        kind: what tasks have in common that differ in sizes alone: the kind of their anchor.
    """

    operations: int
    least_s: float
    kind: str

    @staticmethod
    def of_program(program: Program, target: Target) -> TaskFacts:
        """The facts of a program, which takes 10 ms."""
        cycles = least_cycles(program.func, target)
        moved = sum(map(bytes_of, (*program.inputs, *program.outputs))) / (
            DEFAULT_CORE.l3_bytes * max(target.threads, 1)
        )
        kind = anchor_of(program.func).kind
        return TaskFacts(program.work.operations, max(cycles, moved, 1.0) / _CLOCK_HZ, kind)


def bytes_of(buffer: Buffer) -> int:
    """The memory of an argument of a program whose sizes are numbers."""
    size = 1
    for extent in buffer.shape:
        size *= as_int(extent) or 1
    return size * buffer.dtype.bytes


# After each batch of a task, how many trials were made and the least time so far in seconds, infinite for none.
Course: TypeAlias = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class TaskProgress:
    """How far a task is. What takes long to find out is found when it is asked for.

    Attributes:
        number: of the task in the session.
        is_open: whether there is anything left to measure.
        read_facts: gives what is known of it anyway.
        read_course: gives how its best time developed.
    """

    number: int
    is_open: bool
    read_facts: Callable[[], TaskFacts]
    read_course: Callable[[], Course]

    @cached_property
    def facts(self) -> TaskFacts:
        """What is known of the task before anything is measured."""
        return self.read_facts()

    @cached_property
    def course(self) -> Course:
        """The course of the task's best time, batch by batch."""
        return self.read_course()

    @property
    def trials(self) -> int:
        return self.course[-1][0] if self.course else 0

    @property
    def best_s(self) -> float:
        """The least time; infinite where there is none yet."""
        return self.course[-1][1] if self.course else inf

    @property
    def since_gain(self) -> int:
        """How many trials were made since the task last became faster."""
        gained = next((trials for trials, best in self.course if best == self.best_s), 0)
        return self.trials - gained

    def best_at(self, trials: int) -> float:
        """The least time once so many trials were made, or that of the first batch."""
        return [best for made, best in self.course if made <= max(trials, self.course[0][0])][-1]


def expected_seconds(tasks: Sequence[TaskProgress]) -> list[float]:
    """The least time of each task; of one that has none, what is expected.

    That is as many times the least that is possible as the measured tasks take, by their median.
    """
    ratios = [task.best_s / task.facts.least_s for task in tasks if task.best_s < inf]
    usual = max(1.0, median(ratios)) if ratios else _USUAL_RATIO
    return [task.best_s if task.best_s < inf else usual * task.facts.least_s for task in tasks]
