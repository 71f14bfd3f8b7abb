"""What is to be built and timed, and which of it is next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import TypeAlias

from metasched.measure.records import Lowered, MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.protocol import Message
from metasched.support.data_classes import dataclass

# What is submitted within so many seconds of one another was submitted together.
_TOGETHER_S = 0.02


@dataclass(eq=False)
class LowerJob:
    """A candidate to lower. `losses` is how many machines were lost over it."""

    candidate: MeasureCandidate
    future: Future[Lowered]
    losses: int = 0

    @property
    def is_wanted(self) -> bool:
        return not self.future.cancelled()


@dataclass(eq=False)
class MeasureJob:
    """A candidate to build, and then to time. `losses` is how many machines were lost over it alone.

    `group` are those that may be timed in turns with it.
    """

    candidate: MeasureCandidate
    future: Future[Measurement]
    best_s: float | None
    plan: TimingPlan
    lowered: Lowered | None
    artefact: Message | None = None
    losses: int = 0

    @property
    def is_wanted(self) -> bool:
        return not self.future.cancelled()

    @property
    def program(self) -> tuple[object, ...]:
        return self.candidate.program, self.candidate.params

    @property
    def group(self) -> GroupKey:
        return (*self.program, self.candidate.target, self.plan.in_turns)


@dataclass(frozen=True)
class Ready:
    """Candidates of a program that could be timed now, by so many machines at most."""

    target: str
    program: tuple[object, ...]
    machines: int


Job: TypeAlias = LowerJob | MeasureJob
GroupKey: TypeAlias = tuple[object, ...]


@dataclass
class _Group:
    """Candidates of one program: how many are being built, and those that are ready to be timed."""

    building: int = 0
    ready: list[MeasureJob] = field(default_factory=list)
    last: float = 0.0


class PendingWork:
    """Everything that is to be done and that no machine does yet. For one thread."""

    def __init__(self) -> None:
        self.builds: deque[Job] = deque()
        self._groups: dict[GroupKey, _Group] = {}
        self._alone: list[MeasureJob] = []

    def add(self, job: Job) -> None:
        """Have a job lowered or built."""
        if isinstance(job, MeasureJob):
            group = self._groups.setdefault(job.group, _Group())
            group.building += 1
            group.last = time.monotonic()
        self.builds.append(job)

    def add_again(self, job: Job) -> None:
        """Have a job lowered or built whose machine was lost, before all others."""
        self.builds.appendleft(job)

    def next_build(self) -> Job | None:
        """A job to lower or build, which is no longer in here; those that nobody wants are dropped."""
        while self.builds:
            job = self.builds.popleft()
            if job.is_wanted:
                return job
            self.note_built(job)
        return None

    def note_built(self, job: Job) -> None:
        """Note that a job is built; one without machine code is not timed."""
        if not isinstance(job, MeasureJob):
            return
        group = self._groups[job.group]
        group.building -= 1
        if job.artefact is not None:
            group.ready.append(job)

    def add_alone(self, jobs: Sequence[MeasureJob]) -> None:
        """Have jobs timed again whose machine was lost: each alone, unless they are timed in turns."""
        if jobs and jobs[0].plan.in_turns:
            self._groups.setdefault(jobs[0].group, _Group()).ready.extend(jobs)
        else:
            self._alone.extend(jobs)

    def ready_groups(self) -> Iterator[Ready]:
        """The jobs that could be timed now, group by group."""
        for job in self._alone:
            yield Ready(job.candidate.target, job.program, 1)
        for group in self._groups.values():
            if self._is_ready(group):
                first = group.ready[0]
                yield Ready(first.candidate.target, first.program, 1 if first.plan.in_turns else len(group.ready))

    def targets(self) -> set[str]:
        """The targets of everything in here."""
        ready = [job for group in self._groups.values() for job in group.ready]
        return {job.candidate.target for job in (*self.builds, *self._alone, *ready)}

    def take_jobs(self, target: str, program: tuple[object, ...], machines: int) -> list[MeasureJob]:
        """Jobs to time in turns on one machine, where so many `machines` share them. They are no longer in here."""
        for job in self._alone:
            if (job.candidate.target, job.program) == (target, program):
                self._alone.remove(job)
                return [job] if job.is_wanted else []
        for key, group in list(self._groups.items()):
            group.ready = [job for job in group.ready if job.is_wanted]
            if self._is_ready(group) and (group.ready[0].candidate.target, group.ready[0].program) == (target, program):
                whole = group.ready[0].plan.in_turns
                share = len(group.ready) if whole else -(-len(group.ready) // max(1, machines))
                taken, group.ready = group.ready[:share], group.ready[share:]
                if not group.ready and not group.building:
                    del self._groups[key]
                return taken
        return []

    def take_all(self) -> list[Job]:
        """All jobs, which are no longer in here."""
        jobs: list[Job] = [*self.builds, *self._alone]
        jobs += [job for group in self._groups.values() for job in group.ready]
        self.builds.clear()
        self._alone.clear()
        self._groups.clear()
        return jobs

    def _is_ready(self, group: _Group) -> bool:
        """Whether all that were submitted together are built."""
        return bool(group.ready) and not group.building and time.monotonic() - group.last >= _TOGETHER_S
