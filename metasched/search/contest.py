"""The candidates that are timed again in turns at the end of a run, and others to estimate the noise."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from metasched.database.best import FINALISTS, LEAST_PAIRS, best_of, comparison, finalists, guess_of
from metasched.database.record import Record, Visit, VisitKind
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.records import Measurement
from metasched.measure.timing import TimingPlan
from metasched.search.budget.pace import build_seconds, visit_seconds
from metasched.search.records.task_records import TaskRecords
from metasched.support.data_classes import dataclass

# How many measurements a run repeats, to estimate the noise.
REPEATS = 4
_MOST_TURNS = 12
# After so many turns it is seen whether more are needed.
_FIRST_TURNS = 6
# What a visit takes besides.
_VISIT_S = 2e-3
# What may be faster by less is as good.
_LEAST_RATIO = 1.01
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


def contest(records: Sequence[Record], most: int = FINALISTS, seconds: float | None = None) -> list[Again]:
    """The finalists, `most` of them besides the guesses, to be timed in turns: as many as there are seconds for.

    None where there is no time for the least number of turns of two.
    """
    found = finalists(records, most)
    limit = _LONGEST_S if seconds is None else min(seconds, _LONGEST_S)
    while seconds is not None and len(found) > 2 and _seconds(found, LEAST_PAIRS) > limit:
        found = _without_slowest(found)
    turns = max(LEAST_PAIRS, min(_MOST_TURNS, int(limit / _turn_s(found)))) if found else 0
    if all(r.role.is_guess for r in found) or (seconds is not None and _seconds(found, LEAST_PAIRS) > seconds):
        return []
    return in_turns(found, min(turns, _FIRST_TURNS))


def in_turns(records: Sequence[Record], turns: int) -> list[Again]:
    """Records to be timed in so many turns."""
    plan = replace(IN_TURNS, samples=2, visits=turns)
    return [Again(record, VisitKind.TURN, plan) for record in records]


def undecided_records(records: Sequence[Record]) -> list[Record]:
    """The best of records that were timed in turns, and those that may yet turn out to be faster, or the guess to be
    beaten; none where the best is known.
    """
    best = best_of(records)
    if best is None:
        return []
    guess = guess_of(records)
    rivals = [r for r in records if r is not best and r.settled and _may_be_faster(r, best)]
    if guess is not None and guess is not best and guess not in rivals and rivals:
        rivals.append(guess)
    return [best, *rivals] if rivals else []


def _may_be_faster(record: Record, best: Record) -> bool:
    compared = comparison(best, record)
    return compared is not None and compared.interval[1] > _LEAST_RATIO


def contest_seconds(records: Sequence[Record], most: int) -> tuple[float, float]:
    """What all turns of the finalists are expected to take, and the least number of turns of two."""
    found = finalists(records, most)
    if not found:
        return 0.0, 0.0
    return min(_seconds(found, _MOST_TURNS), _LONGEST_S), _seconds(found[:2], LEAST_PAIRS)


def turns_seconds(again: Sequence[Again]) -> float:
    """What timing records again is expected to take."""
    usual = TimingPlan()
    return sum((visit_seconds(one.record) + _VISIT_S) * (one.plan or usual).visits for one in again)


def _seconds(records: Sequence[Record], turns: int) -> float:
    """The seconds of so many turns. What was not built lately is built again, two at a time."""
    return _turn_s(records) * turns + sum(map(build_seconds, records)) / 2


def _turn_s(records: Sequence[Record]) -> float:
    """The seconds of one turn."""
    return sum(visit_seconds(record) + _VISIT_S for record in records)


def _without_slowest(records: Sequence[Record]) -> list[Record]:
    """All but the slowest that is no guess; two of them are left at least."""
    slowest = max(
        (r for r in records if not r.role.is_guess), key=lambda r: r.search_seconds or 0.0, default=records[-1]
    )
    return [record for record in records if record is not slowest]


def due_repeat(known: TaskRecords, wanted: int, seed: int) -> list[Again]:
    """One measurement to repeat now, if any is due; repetitions are spread over the run's `wanted` trials."""
    if known.repeats >= REPEATS or known.trial_count * (REPEATS + 1) < wanted * (known.repeats + 1):
        return []
    return _draw_repeats(known, 1, seed)


def last_repeats(known: TaskRecords, seed: int) -> list[Again]:
    """The repetitions that a short run has left for its end: of at most half of its timed records."""
    settled = len(known.unrepeated_numbers) + known.repeated
    return _draw_repeats(known, min(REPEATS, settled // 2) - known.repeats, seed)


def _draw_repeats(known: TaskRecords, count: int, seed: int) -> list[Again]:
    """Random records with a time that were not repeated yet. Not the best ones: their times are biased by luck."""
    fresh = known.unrepeated_numbers
    if count < 1 or not fresh:
        return []
    rng = random.Random(f"{seed} {known.trial_count}")
    drawn = rng.sample(fresh, min(count, len(fresh)))
    return [Again(record, VisitKind.REPEAT) for record in known.load_numbers(drawn).values()]


def group_name() -> str:
    """A name for the records that are measured together now."""
    return f"{time.time():.3f}"
