"""The interface of a record store, and how a URL chooses one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence, Set
from enum import Enum
from heapq import nsmallest
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from metasched.database.best import best_record
from metasched.database.claims import Claimant
from metasched.database.record import DatabaseError, DatabaseStats, Duplicate, Record, SearchKey, TaskKey
from metasched.database.summary import Summary, summary_of
from metasched.permissions import EVERYTHING, Permission


class Access(Enum):
    """What a database is opened for. Only `CREATE` makes one where there is none yet."""

    CREATE = "create"
    WRITE = "write"
    READ = "read"  # also where nothing can be written; nothing is changed, not even the schema of an older version


@runtime_checkable
class Database(Protocol):
    """A store of records. The processes that tune write, and claim what they are about to measure; any may read.

    A record that `add` returned for is there for good, whatever happens to the process next.
    """

    @property
    def url(self) -> str: ...

    def add(self, record: Record) -> int:
        """Store one record and commit it. Returns its number, by which `load` finds it."""

    def add_all(self, records: Sequence[Record]) -> list[int]:
        """Store records and commit them together: all of them, or none. Returns their numbers, which only grow."""

    def update(self, records: Sequence[Record]) -> None:
        """Replace the visits and the failure of stored records, found by their `identity`."""

    def add_duplicates(self, search: SearchKey, duplicates: Sequence[Duplicate]) -> None:
        """Store proposals for which nothing was measured: a search that goes on learns them again."""

    def duplicates(self, search: SearchKey) -> list[Duplicate]:
        """Every duplicate of a search, oldest first."""

    def join(self, search: SearchKey, claimant: Claimant) -> None:
        """Register a process as working on a search until it leaves; calling it again renews the registration."""

    def leave(self, search: SearchKey, claimant: Claimant) -> None:
        """Give up whatever a process claimed of a search."""

    def others(self, search: SearchKey, claimant: Claimant) -> int:
        """How many other processes are at a search."""

    def under_way(self, search: SearchKey, claimant: Claimant) -> int:
        """How many codes of a search other processes have claimed."""

    def claim(self, search: SearchKey, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
        """Claim the first `limit` of the codes that the search has no record of and no other process has claimed."""

    def release(self, search: SearchKey, claimant: Claimant) -> None:
        """Give up a process's claims on codes, which are recorded by now or were not measured."""

    def remove(self, records: Sequence[Record]) -> None:
        """Remove records, together, and give the space back. Records not in the database are ignored."""

    def damaged(self) -> list[str]:
        """What is wrong with each record that cannot be read or whose trace does not parse."""

    def remove_damaged(self) -> None:
        """Remove the records that `damaged` is about, together, and give the space back."""

    def records(self, task: TaskKey) -> list[Record]:
        """Every record of a task, whole, oldest first. Those that cannot be read are left out, with a warning."""

    def summaries(self, task: TaskKey, after: int = 0) -> list[Summary]:
        """Every record of a task with a larger number than `after`, in short, by number."""

    def load(self, task: TaskKey, numbers: Iterable[int]) -> dict[int, Record]:
        """The whole records of some numbers. Those that cannot be read are left out, with a warning."""

    def leading(self, task: TaskKey, most: int) -> list[Record]:
        """The records of a task that have a time, the `most` fastest at most, fastest first.

        Those that cannot be read are left out, with a warning.
        """

    def best(self, task: TaskKey, allowed: Set[Permission] = EVERYTHING) -> Record | None:
        """The best record over all spaces, by `metasched.database.best.best_record`. None when there is none.

        Only records whose traces need no permission but these are taken.

        Records that cannot be read, or whose trace does not parse, are left out, with a warning.
        """

    def count(self, task: TaskKey) -> int:
        """The number of a task's records, failures included."""

    def tasks(self) -> tuple[TaskKey, ...]:
        """The tasks that have records, in the order that they were first measured."""

    def stats(self) -> DatabaseStats:
        """What the database holds, per task."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class BaseDatabase(ABC):
    """What every store shares: being a context manager, and what can be said of records once they are read.

    A store that can answer more quickly than by reading all of them does.
    """

    @abstractmethod
    def add_all(self, records: Sequence[Record]) -> list[int]: ...

    @abstractmethod
    def records(self, task: TaskKey) -> list[Record]: ...

    @abstractmethod
    def close(self) -> None: ...

    def stats(self) -> DatabaseStats:
        """What the database holds. Raises DatabaseError where the store cannot say."""
        raise DatabaseError(
            "this database does not say what it holds", hint=f"{type(self).__name__} needs a method `stats` for that"
        )

    def tasks(self) -> tuple[TaskKey, ...]:
        return tuple(found.task for found in self.stats().tasks)

    def add(self, record: Record) -> int:
        (number,) = self.add_all((record,))
        return number

    def summaries(self, task: TaskKey, after: int = 0) -> list[Summary]:
        """For a store whose numbers are 1, 2, ... in the order of `records`."""
        texts: dict[object, int] = {}
        numbered = enumerate(self.records(task), start=1)
        return [
            summary_of(record, number, texts.setdefault((record.program, record.params), len(texts)))
            for number, record in numbered
            if number > after
        ]

    def load(self, task: TaskKey, numbers: Iterable[int]) -> dict[int, Record]:
        wanted = set(numbers)
        return {number: record for number, record in enumerate(self.records(task), start=1) if number in wanted}

    def leading(self, task: TaskKey, most: int) -> list[Record]:
        timed = (s for s in self.summaries(task) if s.settled and s.seconds is not None)
        fastest = [s.number for s in nsmallest(most, timed, key=lambda s: (s.seconds, s.number))]
        found = self.load(task, fastest)
        return [found[number] for number in fastest if number in found]

    def best(self, task: TaskKey, allowed: Set[Permission] = EVERYTHING) -> Record | None:
        found = [s for s in self.summaries(task) if s.is_within(allowed)]
        return best_record(found, lambda numbers: self.load(task, numbers))

    def count(self, task: TaskKey) -> int:
        return len(self.records(task))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
