"""Several databases as one: what is measured goes to the first, and the others are read.

What is recorded elsewhere may be from another machine, or a stranger's: it is a proposal, and no time that counts. So
the fastest records of the others are given as of another version of the code: a search times the best of them again,
here, before it compares or returns any of them, and trials are one's own. They are taken if they are what they claim
(`metasched.database.check`), so many of them at most, no longer than any that tuning writes, and so long in all.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from metasched.database.base import BaseDatabase, Database
from metasched.database.best import best_of
from metasched.database.check import RecordProblem, check_meaning
from metasched.database.claims import Claimant
from metasched.database.record import (
    DamagedRecordWarning,
    DatabaseStats,
    Duplicate,
    Record,
    SearchKey,
    TaskKey,
    code_version,
)
from metasched.database.rows import written_number
from metasched.database.summary import Summary, summary_of
from metasched.errors import callers_level
from metasched.permissions import EVERYTHING, Permission
from metasched.support.messages import with_hint

LOGGER = logging.getLogger(__name__)

# Of each task, how many records of another database are taken, and how many characters of one and of all of them are
# read as programs and traces: a thousand times what tuning writes is a second's reading.
_MOST_RECORDS = 32
_MOST_CHARACTERS = 1 << 16
_MOST_IN_ALL = 1 << 19


class UnionDatabase(BaseDatabase):
    """The database `own`, and what `others` have beside it, which are only read. All are closed with it."""

    def __init__(self, own: Database, others: Sequence[Database]) -> None:
        self._own = own
        self._others = tuple(others)
        self._taken: dict[TaskKey, tuple[Record, ...]] = {}

    @property
    def url(self) -> str:
        return self._own.url

    def close(self) -> None:
        for database in (self._own, *self._others):
            database.close()

    # --- what is written, and what is about searches: in the first database

    def add_all(self, records: Sequence[Record]) -> list[int]:
        return self._own.add_all(records)

    def update(self, records: Sequence[Record]) -> None:
        self._own.update(records)

    def remove(self, records: Sequence[Record]) -> None:
        self._own.remove(records)

    def damaged(self) -> list[str]:
        return self._own.damaged()

    def remove_damaged(self) -> None:
        self._own.remove_damaged()

    def add_duplicates(self, search: SearchKey, duplicates: Sequence[Duplicate]) -> None:
        self._own.add_duplicates(search, duplicates)

    def duplicates(self, search: SearchKey) -> list[Duplicate]:
        return self._own.duplicates(search)

    def join(self, search: SearchKey, claimant: Claimant) -> None:
        self._own.join(search, claimant)

    def leave(self, search: SearchKey, claimant: Claimant) -> None:
        self._own.leave(search, claimant)

    def others(self, search: SearchKey, claimant: Claimant) -> int:
        return self._own.others(search, claimant)

    def under_way(self, search: SearchKey, claimant: Claimant) -> int:
        return self._own.under_way(search, claimant)

    def claim(self, search: SearchKey, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
        return self._own.claim(search, codes, limit, claimant)

    def release(self, search: SearchKey, claimant: Claimant) -> None:
        self._own.release(search, claimant)

    def stats(self) -> DatabaseStats:
        return self._own.stats()

    # --- what is read: numbers of the others' records are below zero

    def records(self, task: TaskKey) -> list[Record]:
        return [*self._own.records(task), *self._foreign_records(task)]

    def summaries(self, task: TaskKey, after: int = 0) -> list[Summary]:
        own = self._own.summaries(task, after)
        if after:
            return own
        found = (
            summary_of(record, number, written_number(record.program, json.dumps(record.params)))
            for number, record in self._foreign_by_number(task).items()
        )
        return sorted([*found, *own])

    def load(self, task: TaskKey, numbers: Iterable[int]) -> dict[int, Record]:
        wanted = list(numbers)
        elsewhere = self._foreign_by_number(task) if min(wanted, default=0) < 0 else {}
        found = {number: elsewhere[number] for number in wanted if number in elsewhere}
        return found | self._own.load(task, [number for number in wanted if number >= 0])

    def leading(self, task: TaskKey, most: int) -> list[Record]:
        return [*self._own.leading(task, most), *self._foreign_records(task)][:most]

    def best(self, task: TaskKey, allowed: Set[Permission] = EVERYTHING) -> Record | None:
        """One's own best; else that of the others, in their order; those of this version of the code come first."""
        own = self._own.best(task, allowed)
        if own is not None and own.is_current:
            return own
        within = [record for record in self._foreign_records(task) if record.permissions <= allowed]
        current = [record for record in within if record.code_version.startswith(f"{code_version()},")]
        return best_of(current) or own or best_of(within)

    def count(self, task: TaskKey) -> int:
        return self._own.count(task)

    def _foreign_by_number(self, task: TaskKey) -> dict[int, Record]:
        return {-n: record for n, record in enumerate(self._foreign_records(task), start=1)}

    def _foreign_records(self, task: TaskKey) -> tuple[Record, ...]:
        """The records that the other databases have of a task, read once."""
        if task not in self._taken:
            self._taken[task] = tuple(record for database in self._others for record in _sound(database, task))
        return self._taken[task]


def _sound(database: Database, task: TaskKey) -> list[Record]:
    """The fastest records of a task that are what they claim, as of another version of the code.

    Of others there is a DamagedRecordWarning.
    """
    found: list[Record] = []
    problems: list[str] = []
    left = _MOST_IN_ALL
    for record in database.leading(task, _MOST_RECORDS):
        length = max(len(record.program), len(record.trace))
        if length > _MOST_CHARACTERS:
            problems.append("its program or trace is longer than any that tuning writes")
            continue
        left -= length
        if left < 0:
            LOGGER.info("of the records of a task elsewhere, those beyond %d characters are not read", _MOST_IN_ALL)
            break
        try:
            check_meaning(record)
        except RecordProblem as problem:
            problems.append(str(problem))
            continue
        found.append(replace(record, code_version=f"{record.code_version}, recorded in {database.url}"))
    if problems:
        warnings.warn(
            with_hint(
                f"`{database.url}`: {_passed_over_warning(problems)}",
                "leave this database out, or have its owner run `metasched db prune`",
            ),
            DamagedRecordWarning,
            stacklevel=callers_level(),
        )
    return found


def _passed_over_warning(problems: Sequence[str]) -> str:
    """The text of a warning: how many records of a task are passed over, and what is wrong with the first."""
    if len(problems) == 1:
        return "1 record of a task is passed over, since it is not what it claims or no longer applies: " + problems[0]
    return (
        f"{len(problems)} records of a task are passed over, since they are not what they claim or no longer apply "
        f"(the first: {problems[0]})"
    )
