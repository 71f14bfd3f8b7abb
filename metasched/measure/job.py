"""A candidate on its way through a runner, and the order in which those of a batch are visited."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import Any, TypeVar

from metasched.ir.program import Program
from metasched.measure.checking.arithmetic import AS_WRITTEN, AllowedArithmetic, arithmetic_of
from metasched.measure.checking.tolerance import divides
from metasched.measure.records import Failure, Lowered, MeasureCandidate, Measurement
from metasched.measure.timing import Times, TimingPlan
from metasched.measure.workers.protocol import Message
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

T = TypeVar("T")

# Of so many candidates, the halves are reversed.
_MANY_JOBS = 8


@dataclass
class Job:
    """A candidate on its way. Phases are seconds by name, `prologues` those of what is run once, of each visit.

    It `is_timed` when it had its visits and is still to be checked as a whole.

    Its future is pending until there is a result, so that whoever waits for it may give it up by `cancel`.
    """

    program: Program
    candidate: MeasureCandidate
    future: Future[Measurement]
    best_s: float | None
    plan: TimingPlan
    phases: dict[str, float]
    lowered: Lowered | None = None
    failure: Failure | None = None
    artefact: Message | None = None
    visits: list[Times] = field(default_factory=list)
    visited_at: float = 0.0
    prologues: list[float] = field(default_factory=list)
    is_timed: bool = False

    @cached_property
    def arithmetic(self) -> AllowedArithmetic:
        """How the candidate's results are computed; known to be as written where nothing that counts is in the
        program.
        """
        found = arithmetic_of(self.candidate.trace)
        return found if found.steps or divides(self.program.func) else AS_WRITTEN

    @property
    def due_at(self) -> float:
        """When its next visit may be, by `time.monotonic`."""
        return self.visited_at + self.plan.apart_s if self.visits else 0.0

    @property
    def task(self) -> tuple[Any, ...]:
        """What candidates that race must have in common."""
        return self.candidate.program, self.candidate.params, self.candidate.target, self.plan

    def count(self, phases: Mapping[str, float]) -> None:
        """Add seconds to its phases."""
        for name, seconds in phases.items():
            self.phases[name] = self.phases.get(name, 0.0) + seconds

    def finish(self, raced: bool = False) -> None:
        """Give its result to whoever waits for it, unless they gave it up."""
        code = None
        if self.artefact is not None:
            code = str(self.artefact.body["code"])
        elif self.lowered is not None:
            code = self.lowered.code
        visits = () if self.failure is not None else tuple(self.visits)
        phases = tuple(self.phases.items())
        self.artefact = self.lowered = None
        prologue = statistics.median(self.prologues) if visits and self.prologues else None
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(Measurement(self.candidate, visits, raced, self.failure, phases, code, prologue))

    def fail(self, error: BaseException) -> None:
        """Raise an exception where its result is waited for, unless it is there or was given up."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


def turn_order(jobs: Sequence[T], turn: int) -> list[T]:
    """The order of the visits of a turn: every other turn is in the reverse order, so that what drifts hits all alike.

    Of many, each half is reversed by itself: between two visits of one there are then visits of a third of the others
    at least.
    """
    if turn % 2 == 0:
        return list(jobs)
    half = len(jobs) if len(jobs) < _MANY_JOBS else (len(jobs) + 1) // 2
    return [*reversed(jobs[:half]), *reversed(jobs[half:])]


def next_visited(jobs: Sequence[Job], now: float) -> int:
    """The position of the job that is visited next, of those left of a turn in its order: the first that is due, so
    that nobody waits while another could be visited; where none is, the one that is due soonest.

    What is timed to be compared with one another is waited for: which one comes first has to change.
    """
    due = (at for at, job in enumerate(jobs) if job.plan.in_turns or job.due_at <= now)
    return next(due, min(range(len(jobs)), key=lambda at: jobs[at].due_at))
