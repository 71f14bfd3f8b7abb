"""The interface of a record store, and how a URL chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import TracebackType
from typing import Protocol, Self

from metasched.database.claims import Claimant
from metasched.database.record import DatabaseStats, Duplicate, Record, TaskKey


class Access(Enum):
    """What a database is opened for. Only `CREATE` makes one where there is none yet."""

    CREATE = "create"
    WRITE = "write"
    READ = "read"  # also where nothing can be written; nothing is changed, not even the schema of an older version


class Database(Protocol):
    """A store of records. The processes that tune write, and claim what they are about to measure; any may read.

    A record that `add` returned for is there for good, whatever happens to the process next.
    """

    @property
    def url(self) -> str: ...

    def add(self, record: Record) -> None:
        """Store one record and commit it."""

    def add_all(self, records: Sequence[Record]) -> None:
        """Store records and commit them together: all of them, or none."""

    def update(self, records: Sequence[Record]) -> None:
        """Give records that are there, known by their `identity`, these visits or this failure."""

    def add_duplicates(self, task: TaskKey, duplicates: Sequence[Duplicate]) -> None:
        """Store proposals for which nothing was measured: a search that goes on learns them again."""

    def duplicates(self, task: TaskKey) -> list[Duplicate]:
        """Every duplicate of a task, oldest first."""

    def join(self, task: TaskKey, claimant: Claimant) -> None:
        """Say that a process tunes a task, until it leaves; said again, that it still does."""

    def leave(self, task: TaskKey, claimant: Claimant) -> None:
        """Give up whatever a process claimed of a task."""

    def others(self, task: TaskKey, claimant: Claimant) -> int:
        """How many other processes tune a task."""

    def under_way(self, task: TaskKey, claimant: Claimant) -> int:
        """How many codes of a task other processes have claimed."""

    def claim(self, task: TaskKey, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
        """Claim the first `limit` of the codes that have no record and that no other process has claimed."""

    def release(self, task: TaskKey, claimant: Claimant) -> None:
        """Give up a process's claims on codes of a task, which are recorded by now or were not measured."""

    def remove(self, records: Sequence[Record]) -> None:
        """Remove records, together, and give the space back. Those that are not there are passed over."""

    def damaged(self) -> list[str]:
        """What is wrong with each record that cannot be read or whose trace does not parse."""

    def remove_damaged(self) -> None:
        """Remove the records that `damaged` is about, together, and give the space back."""

    def records(self, task: TaskKey) -> list[Record]:
        """Every record of a task, oldest first. Those that cannot be read are left out, with a warning."""

    def best(self, task: TaskKey) -> Record | None:
        """The best record, by `metasched.database.best.best_of`. None when there is none.

        Records that cannot be read, or whose trace does not parse, are left out, with a warning.
        """

    def count(self, task: TaskKey) -> int:
        """The number of a task's records, failures included."""

    def stats(self) -> DatabaseStats:
        """What the database holds, per task."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class BaseDatabase:
    """What every store shares: being a context manager."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
