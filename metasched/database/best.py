"""Which record of a task is the best: what `tune` returns and every later process takes.

It is the fastest that was measured, or the guess unless something is faster in a paired test. The test's turns are
visits of the records, so that whoever reads them comes to the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from math import exp, log, sqrt

from metasched.database.record import Record, Role, VisitKind, code_version
from metasched.database.summary import Summary
from metasched.measure.comparison import Comparison
from metasched.measure.timing import is_clearly_slower
from metasched.support.data_classes import dataclass

# Turns that two records must share to be compared by them.
LEAST_PAIRS = 6
# How many of the fastest are timed again in turns.
FINALISTS = 4
# A candidate so many times slower than the guess in the search is not timed again beside it.
_BEHIND_GUESS = 1.1


def best_of(records: Iterable[Record]) -> Record | None:
    """The best record of a task, None where nothing was measured.

    A raced record, or one of a single visit, is a bound and no time. Where the guess has a time, another record is
    taken only if it is faster by `is_faster`; and once records were timed in turns, one of these is, unless another
    is clearly faster still.
    """
    settled = by_time(records)
    tested = [record for record in settled if record.by_group(VisitKind.TURN)]
    guess = guess_of(settled)
    if guess is not None:
        faster = (r for r in tested if r is not guess and is_faster(r, guess))
        champion: Record | None = next(faster, guess)
    else:
        champion = tested[0] if tested else None
    if champion is None:
        return settled[0] if settled else None
    return next((r for r in settled if r not in tested and is_faster(r, champion)), champion)


def best_record(
    summaries: Sequence[Summary],
    load: Callable[[Sequence[int]], Mapping[int, Record]],
    is_sound: Callable[[Record], bool] = lambda record: True,
) -> Record | None:
    """The best record of a task over all its spaces; None where nothing was measured.

    It is one of the version of the code that is running, else of the version that was measured with last. `load` reads
    records by their numbers, and may leave some out that cannot be read; one that is not sound is not taken, either.
    """
    for version in _versions(summaries):
        left = [s for s in summaries if s.code_version == version]
        while listed := shortlist(left):
            loaded = load([s.number for s in listed])
            bad = {s.number for s in listed if s.number not in loaded}
            if not bad:
                found = best_of(loaded.values())
                if found is None or is_sound(found):
                    return found
                bad = {number for number, record in loaded.items() if record is found}
            left = [s for s in left if s.number not in bad]
    return None


def _versions(summaries: Sequence[Summary]) -> list[str]:
    """Versions of the code, the one that is running first, then the one that was measured with last."""
    last: dict[str, float] = {}
    for s in summaries:
        last[s.code_version] = max(s.timestamp, last.get(s.code_version, s.timestamp))
    return sorted(last, key=lambda version: (version != code_version(), -last[version]))


def shortlist(summaries: Iterable[Summary]) -> list[Summary]:
    """The records that `best_of` may return: guesses, what was timed in turns, and the fastest of the others."""
    settled = [s for s in summaries if s.settled]
    tested = [s for s in settled if s.turns or s.is_guess]
    others = (s for s in settled if not (s.turns or s.is_guess))
    return sorted([*tested, *nsmallest(1, others, key=lambda r: r.seconds_or_inf)])


def by_time(records: Iterable[Record]) -> list[Record]:
    """The records that have a time, fastest first; ties keep their order."""
    return [r for _, r in sorted(((r.seconds_or_inf, r) for r in records if r.settled), key=lambda item: item[0])]


def fastest_records(records: Iterable[Record], count: int) -> list[Record]:
    """Up to `count` valid records of each version of the code: the best one, then the others by time, then those that
    are bounds only.
    """
    by_version: dict[str, list[Record]] = {}
    for record in records:
        by_version.setdefault(record.code_version, []).append(record)
    return [record for of_version in by_version.values() for record in _fastest_of_version(of_version, count)]


def _fastest_of_version(given: list[Record], count: int) -> list[Record]:
    best = best_of(given)
    bounds = [r for r in given if r.failure is None and not r.settled]
    ranked = [*by_time(given), *sorted(bounds, key=lambda r: r.seconds_or_inf)]
    return [*([best] if best is not None else []), *(r for r in ranked if r is not best)][:count]


def guess_of(records: Iterable[Record]) -> Record | None:
    """The guess that others are measured against: the default one, else that of the space searched; the latest."""
    found = {record.role: record for record in records if record.settled}
    return found.get(Role.DEFAULT) or found.get(Role.GUESS)


def is_faster(record: Record, other: Record) -> bool:
    """Whether a record is faster for sure: by a 95 % interval of its gain over shared turns.

    Without shared turns, whether every sample of the other is clearly slower than this one's median.
    """
    compared = comparison(other, record)
    if compared is not None:
        return compared.interval[0] > 1
    return is_clearly_slower([visit.times for visit in other.visits], record.seconds)


def comparison(first: Record, second: Record) -> Comparison | None:
    """Two records by the turns that they share; None where these are too few."""
    a, b = first.by_group(VisitKind.TURN), second.by_group(VisitKind.TURN)
    pairs = tuple((a[group], b[group]) for group in a if group in b)
    return Comparison(pairs) if len(pairs) >= LEAST_PAIRS else None


def finalists(records: Sequence[Record], most: int = FINALISTS) -> list[Record]:
    """The records that are to be timed in turns before the best is known; none where nothing is left to tell.

    They are the `most` fastest of the search, less those that the guess is clearly better than, and the guesses.
    """
    settled = [record for record in records if record.settled]
    guesses = [g for g in (_last_of_role(settled, Role.DEFAULT), _last_of_role(settled, Role.GUESS)) if g is not None]
    limit = min((g.search_seconds_or_inf * _BEHIND_GUESS for g in guesses), default=float("inf"))
    others = [r for r in settled if r not in guesses and r.search_seconds_or_inf <= limit]
    chosen = [*guesses, *sorted(others, key=lambda r: r.search_seconds_or_inf)[:most]]
    if len(chosen) < 2 or all(comparison(chosen[0], r) is not None for r in chosen[1:]):
        return []
    return chosen


@dataclass(frozen=True)
class Noise:
    """How much the times of equal code vary: `deviation` is the standard deviation of the logarithm of a time.

    It is pooled over `repeats` measurements that were made again, later in a run.
    """

    deviation: float
    repeats: int

    def __str__(self) -> str:
        return f"{exp(self.deviation) - 1:.1%} (standard deviation, {self.repeats} measured again)"


def noise_of(records: Iterable[Record]) -> Noise | None:
    """The noise that repeated measurements show; None where there are none."""
    squares, repeats = 0.0, 0
    for record in records:
        again = record.by_group(VisitKind.REPEAT)
        first = record.times_of(VisitKind.SEARCH)
        if again and first and record.search_seconds is not None:
            logs = [log(record.search_seconds), *(log(seconds) for seconds in again.values())]
            mean = sum(logs) / len(logs)
            squares += sum((value - mean) ** 2 for value in logs)
            repeats += len(again)
    return Noise(sqrt(squares / repeats), repeats) if repeats else None


def _last_of_role(records: Iterable[Record], role: Role) -> Record | None:
    return next(reversed([record for record in records if record.role is role]), None)
