"""What a search has from earlier ones of the same program and target: in other spaces, and with other versions.

Times of other spaces, made with this version, are told to the strategy before its first proposal, and are not taken
again. Those made with another version may not hold any more: the best of them are the first to be timed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from metasched.database.base import Database
from metasched.database.best import FINALISTS, best_record
from metasched.database.record import DatabaseError, Duplicate, Record, SearchKey
from metasched.database.summary import Summary
from metasched.errors import LanguageError, ScheduleError
from metasched.ir.program import Program
from metasched.search.known import Entry, Known
from metasched.search.other_names import own_trace
from metasched.search.space_protocol import Candidate, Observation, SearchSpace

# How many records of another version are timed again in the first batch.
SEEDS = 8
# Where in the first batch stands what was not proposed but found, after all proposals.
_AFTER = 1 << 16


@dataclass(frozen=True)
class Elsewhere:
    """The best schedule of another version where this space does not hold it, and the space that it is of."""

    trace: str
    space: str


class Earlier:
    """What `known` has of earlier searches, in a space."""

    def __init__(self, known: Known, space: SearchSpace, program: Program) -> None:
        self._known = known
        self._space = space
        self._program = program

    def observations(self) -> list[Observation]:
        """What other spaces have shown of candidates of this one."""
        return [observation(candidate, summary) for candidate, summary in self._located(self._known.others())]

    def adopt(self, database: Database, search: SearchKey, batch: int) -> None:
        """Have the fastest of what other spaces hold as well among what this search may return, from now on.

        They are recorded as proposals whose code had been measured: so whoever reads the records finds them, too.
        """
        settled = ((c, s) for c, s in self._located(self._known.others()) if s.settled and s.code)
        found = nsmallest(FINALISTS, settled, key=lambda pair: _seconds(pair[1]))
        traces = [(self._space.trace(candidate), s.code) for candidate, s in found]
        new = [
            Duplicate(trace, code, batch, _AFTER + n)
            for n, (trace, code) in enumerate(traces)
            if not self._known.is_duplicate(trace)
        ]
        if new:
            database.add_duplicates(search, new)
            self._known.add_duplicates(new)

    def seeds(self) -> list[Candidate]:
        """The candidates that were fastest with other versions, to be timed again: up to `SEEDS`, the best first."""
        timed = ((c, s) for c, s in self._located(self._known.older()) if s.settled)
        fastest = sorted(timed, key=lambda pair: _seconds(pair[1]))
        return list(dict.fromkeys(candidate for candidate, _ in fastest))[:SEEDS]

    def elsewhere(self) -> Elsewhere | None:
        """The best record of another version, over all spaces, where this space does not hold it.

        It is timed again as well: whoever compiles from the database would lose it otherwise.
        """
        best = best_record(self._known.older(), self._known.load_numbers)
        trace = None if best is None else self._own_trace(best)
        if best is None or trace is None or self._space.locate(trace) is not None:
            return None
        return Elsewhere(trace, best.space)

    def _own_trace(self, record: Record) -> str | None:
        """The trace of a record in this program's names; None where it does not apply to its own any more."""
        try:
            return str(own_trace(record, self._program))
        except (ScheduleError, LanguageError, DatabaseError):
            return None

    def _located(self, summaries: Sequence[Summary]) -> list[tuple[Candidate, Summary]]:
        candidates = self._space.locate_all([s.outline for s in summaries])
        return [(c, s) for c, s in zip(candidates, summaries, strict=True) if c is not None]


def located(space: SearchSpace, entries: Sequence[Entry]) -> list[Observation | None]:
    """Proposals that are recorded as observations; None for those of another space."""
    candidates = space.locate_all([outline for _, outline, _ in entries])
    return [
        None if candidate is None else observation(candidate, summary)
        for candidate, (_, _, summary) in zip(candidates, entries, strict=True)
    ]


def observation(candidate: Candidate, summary: Summary | None) -> Observation:
    """What a record says of a candidate; that it is illegal, where there is none."""
    if summary is None:
        return Observation(candidate, None)
    return Observation(candidate, summary.search_seconds, bool(summary.raced))


def _seconds(summary: Summary) -> float:
    return float("inf") if summary.seconds is None else summary.seconds
