"""The end of a run: the best candidates are timed again in turns, and some others to estimate the noise."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from metasched.database.best import FINALISTS, LEAST_PAIRS, finalists
from metasched.database.record import Record, Visit, VisitKind
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.records import Measurement
from metasched.measure.timing import TimingPlan
from metasched.search.known import Known

# How many measurements a run repeats, to estimate the noise.
REPEATS = 4
_TURNS = 12
# The most seconds that all turns may take: there are fewer turns otherwise.
_LONGEST_S = 10.0


@dataclass(frozen=True)
class Again:
    """A record to measure again, as `kind`: with `plan`, or as it was first measured if that is None."""

    record: Record
    kind: VisitKind
    plan: TimingPlan | None = None

    def with_visits(self, measured: Measurement, group: str) -> Record:
        """The record with its new visits. If they failed, it becomes a failure, so that it cannot be the best."""
        if self.record.failure is not None:
            return self.record
        if measured.failure is not None:
            return replace(self.record, visits=(), failure=measured.failure.reason, raced=False)
        turns = self.kind is VisitKind.TURN
        new = (Visit(times, self.kind, f"{group}/{n}" if turns else group) for n, times in enumerate(measured.visits))
        return replace(self.record, visits=(*self.record.visits, *new))


# Submitted measurements, and the futures of their results.
Asked = tuple[Again, "Future[Measurement]"]


def contest(records: Sequence[Record], most: int = FINALISTS) -> list[Again]:
    """The finalists, `most` of them besides the guesses, to be timed in turns."""
    found = finalists(records, most)
    seconds = 2 * sum(record.seconds or 0.0 for record in found)
    turns = _TURNS if seconds * _TURNS <= _LONGEST_S else max(LEAST_PAIRS, int(_LONGEST_S / seconds))
    plan = replace(IN_TURNS, samples=2, visits=turns)
    return [Again(record, VisitKind.TURN, plan) for record in found]


def due_repeat(known: Known, wanted: int, seed: int) -> list[Again]:
    """One measurement to repeat now, if any is due; repetitions are spread over the run's `wanted` trials."""
    if known.repeats >= REPEATS or known.made * (REPEATS + 1) < wanted * (known.repeats + 1):
        return []
    return _drawn(known, 1, seed)


def last_repeats(known: Known, seed: int) -> list[Again]:
    """The repetitions that a short run has left for its end: of at most half of its timed records."""
    settled = len(known.not_repeated) + known.repeated
    return _drawn(known, min(REPEATS, settled // 2) - known.repeats, seed)


def _drawn(known: Known, count: int, seed: int) -> list[Again]:
    """Random records with a time that were not repeated yet. Not the best ones: their times are biased by luck."""
    fresh = known.not_repeated
    if count < 1 or not fresh:
        return []
    rng = random.Random(f"{seed} {known.made}")
    drawn = rng.sample(fresh, min(count, len(fresh)))
    return [Again(record, VisitKind.REPEAT) for record in known.load_numbers(drawn).values()]


def group_name() -> str:
    """A name for the records that are measured together now."""
    return f"{time.time():.3f}"
