"""What a search takes from earlier ones of the same program and target, in other spaces and with other versions.

Times from other spaces, measured with this version, are observed by the strategy before its first proposal, and are not
measured again. Times measured with another version may be out of date: the best of those candidates are timed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import nsmallest

from metasched.database.base import Database
from metasched.database.best import FINALISTS, best_record
from metasched.database.record import Duplicate, SearchKey
from metasched.database.summary import Summary
from metasched.ir.program import Program
from metasched.schedule.trace_outline import Outline
from metasched.search.records.other_names import applying_trace
from metasched.search.records.task_records import Entry, TaskRecords
from metasched.search.space_protocol import Candidate, Observation, SearchSpace
from metasched.support.data_classes import dataclass

# How many records of another version are timed again in the first batch.
SEEDS = 8
# The position in the first batch of candidates that come from records: after all proposals.
_PLACE_AFTER_PROPOSALS = 1 << 16


@dataclass(frozen=True)
class BestElsewhere:
    """The best schedule of another version, if it is not of this space, and its own space."""

    trace: str
    space: str


class EarlierSearches:
    """The results of earlier searches among `known`, seen from one space."""

    def __init__(self, known: TaskRecords, space: SearchSpace, program: Program) -> None:
        self._known = known
        self._space = space
        self._program = program

    def observations(self) -> list[Observation]:
        """The results from other spaces for candidates of this one."""
        return [
            observation(candidate, summary)
            for candidate, summary in self._locate_summaries(self._known.other_summaries())
        ]

    def adopt(self, database: Database, search: SearchKey, batch: int) -> None:
        """Record the fastest candidates of this space from other spaces, so that this search may return them.

        They are recorded as duplicates of measured code, so that every reader of the records finds them.
        """
        settled = ((c, s) for c, s in self._locate_summaries(self._known.other_summaries()) if s.settled and s.code)
        found = nsmallest(FINALISTS, settled, key=lambda pair: pair[1].seconds_or_inf)
        traces = [(self._space.trace(candidate), s.code) for candidate, s in found]
        new = [
            Duplicate(trace, code, batch, _PLACE_AFTER_PROPOSALS + n)
            for n, (trace, code) in enumerate(traces)
            if not self._known.is_duplicate(trace)
        ]
        if new:
            database.add_duplicates(search, new)
            self._known.add_duplicates(new)

    def seeds(self) -> list[Candidate]:
        """Up to `SEEDS` candidates that were fastest with other versions, to be timed again, the best first."""
        timed = ((c, s) for c, s in self._locate_summaries(self._known.older_summaries()) if s.settled)
        fastest = sorted(timed, key=lambda pair: pair[1].seconds_or_inf)
        return list(dict.fromkeys(candidate for candidate, _ in fastest))[:SEEDS]

    def best_elsewhere(self) -> BestElsewhere | None:
        """The best record of another version over all spaces, if it is not of this space.

        It is timed again too: `compile` from the database could not return it otherwise.
        """
        best = best_record(self._known.older_summaries(), self._known.load_numbers)
        trace = None if best is None else applying_trace(best, self._program)
        if best is None or trace is None or self._space.locate(str(trace)) is not None:
            return None
        return BestElsewhere(str(trace), best.space)

    def _locate_summaries(self, summaries: Sequence[Summary]) -> list[tuple[Candidate, Summary]]:
        outlines = [s.outline for s in summaries]
        text_of = partial(_text_at, self._known, outlines, summaries)
        candidates = self._space.locate_all(outlines, text_of)
        return [(c, s) for c, s in zip(candidates, summaries, strict=True) if c is not None]


def _text_at(known: TaskRecords, outlines: Sequence[Outline], summaries: Sequence[Summary], at: int) -> str | None:
    return known.trace_of(outlines[at], summaries[at])


def locate_entries(space: SearchSpace, known: TaskRecords, entries: Sequence[Entry]) -> list[Observation | None]:
    """The recorded proposals as observations; None for those of another space."""
    outlines = [outline for _, outline, _ in entries]
    text_of = partial(_text_at, known, outlines, [summary for _, _, summary in entries])
    candidates = space.locate_all(outlines, text_of)
    return [
        None if candidate is None else observation(candidate, summary)
        for candidate, (_, _, summary) in zip(candidates, entries, strict=True)
    ]


def observation(candidate: Candidate, summary: Summary | None) -> Observation:
    """The observation of a candidate from its record; without a record, that it is illegal."""
    if summary is None:
        return Observation(candidate, None)
    return Observation(candidate, summary.search_seconds, bool(summary.raced))
