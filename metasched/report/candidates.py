"""Measured candidates, in short: what a record says of one, with its decisions by address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from metasched.database.record import NO_TRIAL, Record, Role, VisitKind
from metasched.measure.timing import median_of
from metasched.schedule.primitive import registry
from metasched.schedule.trace_outline import outline_of
from metasched.support.data_classes import dataclass

_DRAWN_STEP = re.compile(r"[\w, ]+ ~ (\w+)\(")
_DECIDED_STEP = re.compile(r' @ "((?:[^"\\]|\\.)*)" := (.*)$')
# A visit that took so many times as long as another of the same candidate: something else ran on the machine.
DISTURBED_RATIO = 1.1


@dataclass(frozen=True)
class Decision:
    """What a random variable was, as the trace has it. `structural` ones choose the steps, others their numbers."""

    address: str
    value: str
    structural: bool


@dataclass(frozen=True)
class MeasuredCandidate:
    """A candidate and what came of it.

    Attributes:
        number: its place among those measured, from 1 on.
        trial: its number in its search; None for what was measured beside it, such as another space's guess.
        batch: of proposals, in which it was.
        place: its place in that batch.
        role: why it was measured.
        seconds: the median time of a call; None after a failure.
        low: the 25th percentile of its samples, `high` the 75th; None after a failure.
        samples: how many there are.
        bound: whether the time is a bound, as it lost the race.
        expected_seconds: what the model expected before; None where it was not asked.
        failure: why it has no time; None where it has.
        decisions: by address, in the order of the trace.
        structure: a hash of its steps without their numbers.
        code: a hash of its code; empty where it has none.
        repeats: how often it was timed again for the noise.
        disturbed: the longest of its visits over the shortest, where that is more than `DISTURBED_RATIO`; else None.
        phases: seconds of building and running it, by name.
        timestamp: when it was recorded, in seconds since 1970.
        space: the fingerprint of the space that it was searched in.
        code_version: that of the code generator.
        trace: its text.
    """

    number: int
    trial: int | None
    batch: int
    place: int
    role: str
    seconds: float | None
    low: float | None
    high: float | None
    samples: int
    bound: bool
    expected_seconds: float | None
    failure: str | None
    decisions: tuple[Decision, ...]
    structure: str
    code: str
    repeats: int
    disturbed: float | None
    phases: tuple[tuple[str, float], ...]
    timestamp: float
    space: str
    code_version: str
    trace: str

    @property
    def is_guess(self) -> bool:
        """Whether it is what a caller without records gets."""
        return Role(self.role).is_guess

    def to_json(self) -> dict[str, Any]:
        """All of it but the trace, as JSON values."""
        out = asdict(self) | {
            "decisions": {decision.address: decision.value for decision in self.decisions},
            "phases": dict(self.phases),
        }
        del out["trace"]
        return out


def measured_candidates(records: Iterable[Record]) -> tuple[MeasuredCandidate, ...]:
    """The candidates of some records, in the order in which they were proposed; what was measured beside a search comes
    last.
    """
    ordered = sorted(records, key=lambda r: (r.code_version, r.space, r.trial == NO_TRIAL, r.batch, r.place, r.trial))
    return tuple(_candidate(number, record) for number, record in enumerate(ordered, start=1))


def _candidate(number: int, record: Record) -> MeasuredCandidate:
    times = sorted(record.times)
    visits = [median_of([visit.times]) for visit in record.visits]
    apart = max(visits) / min(visits) if visits else 1.0
    return MeasuredCandidate(
        number=number,
        trial=None if record.trial == NO_TRIAL else record.trial,
        batch=record.batch,
        place=record.place,
        role=record.role.value,
        seconds=record.seconds,
        low=_quantile(times, 0.25),
        high=_quantile(times, 0.75),
        samples=len(times),
        bound=record.failure is None and not record.settled,
        expected_seconds=record.expected_seconds,
        failure=record.failure,
        decisions=tuple(decisions_of(record.trace)),
        structure=outline_of(record.trace).structure,
        code=record.code,
        repeats=len(record.groups(VisitKind.REPEAT)),
        disturbed=apart if apart > DISTURBED_RATIO else None,
        phases=record.phases,
        timestamp=record.timestamp,
        space=record.space,
        code_version=record.code_version,
        trace=record.trace,
    )


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return ordered[round(share * (len(ordered) - 1))] if ordered else None


def decisions_of(trace: str) -> Iterator[Decision]:
    """The decisions of a trace's text, without parsing the rest."""
    for line in trace.splitlines():
        drawn = _DRAWN_STEP.match(line)
        decided = None if drawn is None else _DECIDED_STEP.search(line, drawn.end())
        if drawn is not None and decided is not None:
            yield Decision(decided[1], decided[2].strip(), _is_structural(drawn[1]))


@cache
def _is_structural(op: str) -> bool:
    """Whether a random variable chooses the steps of a program; one that is not known here does not."""
    try:
        drawn = registry()[op].drawn
    except KeyError:
        return False
    return drawn is not None and drawn.structural
