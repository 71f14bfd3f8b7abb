"""What is recorded of a task, as the search asks for it: by trace and by code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from metasched.database.base import Database
from metasched.database.best import best_of, guess_of
from metasched.database.record import NO_TRIAL, Duplicate, Record, Role, TaskKey


class Known:
    """The records of a task. `trials` are those that count for this search: whose trace `belongs`.

    Others, such as the default guess where another space is searched, only have a say in what is best of the task.
    """

    def __init__(self, database: Database, task: TaskKey, belongs: Callable[[str], bool]) -> None:
        self._database = database
        self._task = task
        self._belongs = belongs
        self.trials: list[Record] = []
        self.others: list[Record] = []
        self._by_trace: dict[str, Record] = {}
        self._by_code: dict[str, Record] = {}
        self._duplicates: dict[str, Duplicate] = {}
        self.pick_up()

    def pick_up(self) -> list[Record]:
        """Take note of what others have recorded since; those of it that are trials of this search."""
        there = {record.identity for record in (*self.trials, *self.others)}
        recorded = sorted(self._database.records(self._task), key=lambda r: (r.batch, r.place, r.trial))
        new = [record for record in recorded if record.identity not in there]
        for record in new:
            self.add(record)
        for duplicate in sorted(self._database.duplicates(self._task), key=lambda d: (d.batch, d.place)):
            if duplicate.code in self._by_code:
                self._duplicates.setdefault(duplicate.trace, duplicate)
        return [record for record in new if self._counts(record)]

    def _counts(self, record: Record) -> bool:
        return record.trial != NO_TRIAL and self._belongs(record.trace)

    def add(self, record: Record) -> None:
        """Take note of a record that is in the database."""
        if not self._counts(record):
            self.others.append(record)
            return
        self.trials.append(record)
        self._by_trace[record.trace] = record
        if record.code:
            self._by_code[record.code] = record

    def add_duplicates(self, duplicates: Sequence[Duplicate]) -> None:
        """Take note of duplicates that are in the database."""
        self._duplicates |= {duplicate.trace: duplicate for duplicate in duplicates}

    def replace(self, records: Iterable[Record]) -> None:
        """Take note of records with other visits."""
        new = {record.identity: record for record in records}
        trials, others = self.trials, self.others
        self.trials, self.others = [], []
        for record in (*trials, *others):
            self.add(new.get(record.identity, record))

    @property
    def all(self) -> list[Record]:
        """Every record of the task."""
        return [*self.trials, *self.others]

    @property
    def numbered(self) -> int:
        """How many trials of the task there are, those of other searches included."""
        return sum(record.trial != NO_TRIAL for record in self.all)

    @property
    def observed(self) -> int:
        """How many proposals have come to something: trials and duplicates."""
        return len(self.trials) + len(self._duplicates)

    @property
    def duplicates(self) -> int:
        return len(self._duplicates)

    @property
    def has_guess(self) -> bool:
        """Whether a guess was measured that a later call would take."""
        return any(r.role is Role.DEFAULT for r in self.all) or any(r.role is Role.GUESS for r in self.trials)

    def of(self, trace: str) -> Record | None:
        """The record of a trace, or that of its code where it is a duplicate."""
        duplicate = self._duplicates.get(trace)
        return self._by_trace.get(trace) or (None if duplicate is None else self._by_code[duplicate.code])

    def of_code(self, code: str) -> Record | None:
        return self._by_code.get(code)

    def in_order(self) -> list[tuple[int, str, Record]]:
        """The batch and trace of every proposal with what came of it, in the order of proposal."""
        own = [((r.batch, r.place), r.trace, r) for r in self.trials]
        shared = [((d.batch, d.place), d.trace, self._by_code[d.code]) for d in self._duplicates.values()]
        return [(at[0], trace, record) for at, trace, record in sorted([*own, *shared], key=lambda entry: entry[0])]

    def failures(self) -> dict[str, int]:
        """How many trials failed for each reason, most first."""
        return dict(Counter(r.failure for r in self.trials if r.failure is not None).most_common())

    def fastest_s(self) -> float | None:
        """The least time of a trial, and no bound."""
        return min((r.seconds for r in self.trials if r.settled and r.seconds is not None), default=None)

    def best(self) -> Record | None:
        return best_of(self.trials)

    def guess(self) -> Record | None:
        """The guess that the best has to beat; where it has no time of its own, because it lost the race, too."""
        latest = {record.role: record for record in self.trials}
        return guess_of(self.trials) or latest.get(Role.DEFAULT) or latest.get(Role.GUESS)
