"""The members of a batch: candidates that the strategy proposed, and guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.cost.model import Model
from metasched.database.record import NO_TRIAL, Role
from metasched.search.records.earlier_searches import observation
from metasched.search.records.task_records import TaskRecords
from metasched.search.space_protocol import Arms, Candidate, Observation, SearchSpace
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Guesses:
    """The guesses, as traces: schedules chosen without measuring.

    `own`, from the space that is searched, is the first trial. `default` is what `compile` gives if the caller names no
    space. If it is another, it is measured too, so that the best record of the task is never slower than what one had
    without records; it is not a trial. None where there is no guess.

    `experts` are the other expert traces for what the program computes, the most promising first. They are trials of
    the first batch: which of them is best, an estimate says less well than a clock. So are `neighbours`, what was found
    for other sizes and carried over.
    """

    own: str | None = None
    default: str | None = None
    experts: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()

    @property
    def traces(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*(trace for trace, _ in self.with_roles()), *self.neighbours, *self.experts]))

    def with_roles(self) -> list[tuple[str, Role]]:
        """The traces to measure, the first trial first."""
        roles = {self.own: Role.GUESS} | {self.default: Role.DEFAULT}
        return [(trace, role) for trace, role in roles.items() if trace is not None]


@dataclass(frozen=True)
class Proposal:
    """A candidate of a batch with its trace.

    `place` is its position in the batch. `candidate` is None if the trace is of another space, `trace` is None if the
    candidate is illegal. `space` is the record's space, if it is not the one searched. `expected_s` is what the model
    expected before anything of the batch was measured, in seconds; None where it cannot say.
    """

    place: int
    candidate: Candidate | None
    trace: str | None
    role: Role = Role.CANDIDATE
    space: str | None = None
    expected_s: float | None = None

    def find_observation(self, known: TaskRecords) -> Observation | None:
        """The proposal's observation; None for a trace of another space, or one that was not measured yet."""
        if self.candidate is None or not self.is_settled(known):
            return None
        return observation(self.candidate, None if self.trace is None else known.summary_of(self.trace))

    def is_settled(self, known: TaskRecords) -> bool:
        """Whether it is illegal, or its result is recorded."""
        if self.trace is None:
            return True
        if not self.role.is_guess:
            return known.summary_of(self.trace) is not None
        # A guess is measured anew in each space: it is the baseline there.
        if self.place == NO_TRIAL:
            return known.has_default
        return known.has_trial(self.trace)


def unmeasured_guesses(guesses: Guesses, known: TaskRecords, space: SearchSpace) -> list[Proposal]:
    """The proposals of guesses that were not measured yet."""
    found = [
        Proposal(0 if n == 0 else NO_TRIAL, space.locate(trace), trace, role)
        for n, (trace, role) in enumerate(guesses.with_roles())
    ]
    return [proposal for proposal in found if not proposal.is_settled(known)]


def with_expectations(proposals: Sequence[Proposal], arms: Arms, model: Model) -> list[Proposal]:
    """The proposals with what a model expects of them now, as far as they are of these arms."""
    by_arm: dict[int, list[int]] = {}
    for n, proposal in enumerate(proposals):
        if proposal.candidate is not None:
            by_arm.setdefault(proposal.candidate.arm, []).append(n)
    expected: dict[int, float] = {}
    for arm, numbers in by_arm.items():
        candidates = (proposals[n].candidate for n in numbers)
        rows = np.array([c.row for c in candidates if c is not None], np.int64)
        seconds = np.exp2(-model.predict(arms[arm].features(rows)))
        expected |= {n: float(s) for n, s in zip(numbers, seconds, strict=True) if 0 < s < np.inf}
    return [replace(proposal, expected_s=expected.get(n)) for n, proposal in enumerate(proposals)]
