"""What other tasks teach the model of one: the records that a database has of them, as features and times.

Which records that are depends on what is recorded alone, and on its order, so that a search that goes on learns from
the same. A batch learns from what was recorded of other tasks before the last record of the task's own earlier batches.
The first batch has none: it learns from all that was recorded before the task's first record, but for the last batch of
the session's other tasks, since that may be measured while this one is proposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from metasched.cost.core import Core
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import spread_positions
from metasched.database.base import Database
from metasched.database.record import SearchKey, TaskKey, code_version
from metasched.database.summary import Summary
from metasched.errors import LanguageError
from metasched.ir.program import Program
from metasched.knowledge.anchor import anchor_of
from metasched.schedule.trace_outline import Outline
from metasched.search.records.feature_cache import FeatureCache
from metasched.search.records.other_names import program_of
from metasched.search.records.record_features import describe_records
from metasched.search.records.task_records import TaskRecords
from metasched.support.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Tasks that teach, those with the same anchor first, then those measured last; and candidates of each.
MOST_TASKS = 16
MOST_EACH = 64
# A task with fewer candidates that were timed says little of which are fast.
LEAST_EACH = 4
_NO_LIMIT = 1 << 62
_NO_TIMES = TaskTimes(np.empty((0, len(NAMES)), np.float32), np.empty(0))


@dataclass
class _Recorded:
    """The records of a task in short, by number, and its features so far; those without any are None."""

    key: TaskKey
    summaries: dict[int, Summary] = field(default_factory=dict)
    features: dict[Outline, Features | None] | None = None
    kind: str | None = None
    taught: tuple[tuple[int, ...], TaskTimes] | None = None

    def summaries_until(self, limit: int) -> list[Summary]:
        """Summaries of the records up to a number that were measured with this version, of equal code the first."""
        by_code: dict[str, Summary] = {}
        for number, summary in self.summaries.items():
            if number <= limit and summary.structure and summary.code_version == code_version():
                by_code.setdefault(summary.code or str(number), summary)
        return list(by_code.values())


class OtherTasks:
    """The records of a database's tasks as lessons for one another, for the searches of a session.

    Args:
        database: where records are.
        core: the constants of a core that features are computed with.
        cache: where features are kept.
        at_once: how many batches of the session may be under way. Where that is several, its tasks do not teach one
            another: what they taught would depend on which is done first.
    """

    def __init__(
        self,
        database: Database,
        core: Core,
        cache: FeatureCache | None = None,
        at_once: Callable[[], int] = lambda: 1,
    ) -> None:
        self._database = database
        self.core = core
        self._cache = FeatureCache.of_user(core) if cache is None else cache
        self._recorded: dict[TaskKey, _Recorded] = {}
        self._searches: set[SearchKey] = set()
        self._at_once = at_once
        self._running: tuple[SearchKey, int] | None = None

    def join(self, search: SearchKey) -> None:
        """Take note that a search is one of the session's."""
        self._searches.add(search)

    @contextmanager
    def measuring_batch(self, search: SearchKey, batch: int) -> Iterator[None]:
        """Note that a batch of a search is being measured, while the body runs."""
        self._running = (search, batch)
        try:
            yield
        finally:
            self._running = None

    def note(self, task: TaskKey, features: Mapping[Outline, Features]) -> None:
        """Keep the features of candidates that were measured, float32 of shape (F,) each."""
        recorded = self._records_of(task)
        known = self._features(recorded)
        new = {o: row for o, row in features.items() if o.structure and o not in known}
        known.update(new)
        self._cache.add(task, new)

    def lessons(self, search: SearchKey, program: Program, known: TaskRecords, batch: int) -> tuple[TaskTimes, ...]:
        """What other tasks on the same target teach a batch of a search."""
        self._pick_up(search.task)
        limit = known.last_before(batch) if batch else self._limit_of_first(search, known.first_number())
        left_out = {search.task, *(own.task for own in self._searches if self._at_once() > 1)}
        found = [
            (recorded, summaries)
            for recorded in self._recorded.values()
            if recorded.key not in left_out and _teaches(summaries := recorded.summaries_until(limit))
        ]
        if not found:
            return ()
        kind = anchor_of(program.func).kind
        found.sort(key=lambda one: (self._kind(one[0]) != kind, -one[1][-1].number))
        taught = (self._times(recorded, summaries) for recorded, summaries in found[:MOST_TASKS])
        return tuple(times for times in taught if len(times) >= LEAST_EACH)

    # --- what is recorded

    def _pick_up(self, task: TaskKey) -> None:
        for key in self._database.tasks():
            if key.target == task.target:
                recorded = self._records_of(key)
                last = max(recorded.summaries, default=0)
                recorded.summaries |= {s.number: s for s in self._database.summaries(key, last)}

    def _records_of(self, task: TaskKey) -> _Recorded:
        return self._recorded.setdefault(task, _Recorded(task))

    def _limit_of_first(self, search: SearchKey, first: int | None) -> int:
        """The number of the last record that a first batch learns from."""
        end = _NO_LIMIT if first is None else first - 1
        newest = self._running if first is None and self._running is not None else self._newest_batch(search, end)
        if newest is None:
            return end
        return min((number for number in self._numbers(*newest)), default=end + 1) - 1

    def _newest_batch(self, search: SearchKey, end: int) -> tuple[SearchKey, int] | None:
        """The last batch up to a number of the session's other tasks."""
        batches = [
            (summary.number, other, summary.batch)
            for other in self._searches
            if other.task != search.task and other.task in self._recorded
            for summary in self._recorded[other.task].summaries.values()
            if summary.number <= end and _is_of(summary, other)
        ]
        return max(batches, key=lambda one: one[0])[1:] if batches else None

    def _numbers(self, search: SearchKey, batch: int) -> list[int]:
        summaries = self._records_of(search.task).summaries.values()
        return [s.number for s in summaries if s.batch == batch and _is_of(s, search)]

    # --- features

    def _kind(self, recorded: _Recorded) -> str:
        """The kind of the task's anchor; empty where its program does not parse."""
        if recorded.kind is None:
            first = next(iter(recorded.summaries))
            records = self._database.load(recorded.key, [first])
            try:
                recorded.kind = anchor_of(program_of(records[first]).func).kind if records else ""
            except LanguageError:
                recorded.kind = ""
        return recorded.kind

    def _features(self, recorded: _Recorded) -> dict[Outline, Features | None]:
        if recorded.features is None:
            recorded.features = dict(self._cache.read(recorded.key))
        return recorded.features

    def _times(self, recorded: _Recorded, summaries: Sequence[Summary]) -> TaskTimes:
        """What some records say, as far as they have features."""
        seconds = np.array([s.search_seconds_or_inf for s in summaries])
        chosen = [summaries[n] for n in spread_positions(seconds, MOST_EACH)]
        numbers = tuple(s.number for s in chosen)
        # The same object as before, where nothing came: who has learned from it need not do so again.
        if recorded.taught is None or recorded.taught[0] != numbers:
            recorded.taught = (numbers, self._times_of(recorded, chosen))
        return recorded.taught[1]

    def _times_of(self, recorded: _Recorded, chosen: Sequence[Summary]) -> TaskTimes:
        known = self._describe(recorded, chosen)
        rows = [(s, row) for s in chosen if (row := known[s.outline]) is not None]
        if not rows:
            return _NO_TIMES
        return TaskTimes(
            np.stack([row for _, row in rows]),
            np.array([s.search_seconds_or_inf for s, _ in rows]),
            np.array([bool(s.raced) for s, _ in rows]),
        )

    def _describe(self, recorded: _Recorded, chosen: Sequence[Summary]) -> Mapping[Outline, Features | None]:
        """The features of records by outline, of which those that are not kept are worked out."""
        known = self._features(recorded)
        missing = {s.outline: s.number for s in chosen if s.outline not in known}
        if missing:
            records = self._database.load(recorded.key, list(missing.values()))
            outlines = [outline for outline, number in missing.items() if number in records]
            found = describe_records([records[missing[outline]] for outline in outlines], self.core)
            new = {outlines[at]: row for at, row in zip(found.positions, found.features, strict=True)}
            known.update(dict.fromkeys(missing))
            known.update(new)
            self._cache.add(recorded.key, new)
        return known


def _teaches(summaries: Sequence[Summary]) -> bool:
    """Whether enough candidates of a task were timed."""
    return sum(summary.search_seconds is not None for summary in summaries) >= LEAST_EACH


def _is_of(summary: Summary, search: SearchKey) -> bool:
    return summary.is_trial and (summary.space, summary.code_version) == (search.space, search.code_version)
