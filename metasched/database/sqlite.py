"""Records in one SQLite file, in WAL mode: readers never wait, and a killed writer loses nothing it committed."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from metasched.database import sqlite_claims
from metasched.database.base import Access, BaseDatabase
from metasched.database.best import best_record
from metasched.database.claims import Claimant
from metasched.database.record import (
    DamagedRecordWarning,
    DatabaseError,
    DatabaseStats,
    Duplicate,
    Record,
    SearchKey,
    TaskKey,
    TaskStats,
)
from metasched.database.rows import (
    ANY_TASK,
    COLUMNS,
    COUNT,
    DERIVED_COLUMNS,
    IN_SHORT,
    RowReader,
    program_name,
    record_of,
    timed_values_of,
    values_of,
    with_trace,
)
from metasched.database.sqlite_errors import explain_errors, is_busy
from metasched.database.sqlite_reading import connect_to_read, in_memory, text_of
from metasched.database.sqlite_schema import SCHEMA_VERSION, migrate
from metasched.database.sqlite_tasks import (
    ALL_WITH_RECORDS,
    OF_SEARCH,
    OF_TASK,
    drop_unused,
    key_of,
    number_of,
    search_of,
)
from metasched.database.summary import Summary
from metasched.errors import NoRecord
from metasched.ir.source import Setting, settings_from_json
from metasched.permissions import EVERYTHING, Permission
from metasched.settings import IN_MEMORY, SQLITE
from metasched.support import interrupts

_APPLICATION_ID = 0x6D736368  # "msch", in the file's header: tells our files from anyone else's
_BUSY_SECONDS = 10.0

_INSERT = f"INSERT INTO records (task, {COLUMNS}, {DERIVED_COLUMNS}) VALUES (?, {', '.join('?' * COUNT)})"
_IDENTICAL = f"{OF_TASK} AND trace = ? AND timestamp = ? AND trial = ? AND seed = ?"


class SQLiteDatabase(BaseDatabase):
    """See `metasched.database.base.Database`. May be used from any thread, one call at a time."""

    def __init__(self, url: str, connection: sqlite3.Connection) -> None:
        self._url = url
        self._connection = connection
        self._connection.text_factory = text_of
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    def add_all(self, records: Sequence[Record]) -> list[int]:
        with self._transaction() as connection:
            return [_insert(connection, record) for record in records]

    def update(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            for record in records:
                connection.execute(
                    "UPDATE records SET visits = ?, failure = ?, raced = ?, seconds = ?, search_seconds = ?, "
                    f"settled = ?, turns = ?, repeats = ? WHERE {_IDENTICAL}",
                    (*timed_values_of(record), *_identity(record)),
                )

    def remove(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            for record in records:
                connection.execute(f"DELETE FROM records WHERE {_IDENTICAL}", _identity(record))
            drop_unused(connection)
        self._free_space()

    def add_duplicates(self, search: SearchKey, duplicates: Sequence[Duplicate]) -> None:
        with self._transaction() as connection:
            number = number_of(connection, search.task)
            connection.executemany(
                "INSERT INTO duplicates (task, space, code_version, trace, code, batch, place) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(number, search.space, search.code_version, *astuple(duplicate)) for duplicate in duplicates],
            )

    def duplicates(self, search: SearchKey) -> list[Duplicate]:
        with self._session() as connection:
            rows = connection.execute(
                f"SELECT trace, code, batch, place FROM duplicates WHERE {OF_SEARCH} ORDER BY id", search_of(search)
            )
            return [Duplicate(*row) for row in rows.fetchall()]

    def join(self, search: SearchKey, claimant: Claimant) -> None:
        with self._transaction() as connection:
            sqlite_claims.join(connection, search, claimant)

    def leave(self, search: SearchKey, claimant: Claimant) -> None:
        with self._transaction() as connection:
            sqlite_claims.leave(connection, search, claimant)

    def others(self, search: SearchKey, claimant: Claimant) -> int:
        with self._session() as connection:
            return sqlite_claims.count_others(connection, search, claimant)

    def under_way(self, search: SearchKey, claimant: Claimant) -> int:
        with self._session() as connection:
            return sqlite_claims.under_way(connection, search, claimant)

    def claim(self, search: SearchKey, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
        with self._transaction() as connection:
            return sqlite_claims.claim(connection, search, codes, limit, claimant)

    def release(self, search: SearchKey, claimant: Claimant) -> None:
        with self._transaction() as connection:
            sqlite_claims.release(connection, search, claimant)

    def records(self, task: TaskKey) -> list[Record]:
        return self._select(task, f"SELECT {COLUMNS} FROM records WHERE {OF_TASK} ORDER BY id")

    def summaries(self, task: TaskKey, after: int = 0) -> list[Summary]:
        # For a few new records, rows are read; for all of them, only the index.
        how = "NOT INDEXED WHERE id > ? AND" if after else "INDEXED BY records_in_short WHERE id > ? AND"
        with self._session() as connection:
            rows = connection.execute(f"SELECT {IN_SHORT} FROM records {how} {OF_TASK}", (after, *key_of(task)))
            return sorted(map(Summary._make, rows.fetchall()))

    def load(self, task: TaskKey, numbers: Iterable[int]) -> dict[int, Record]:
        reader = RowReader(lambda row: record_of(task, row))
        found: dict[int, Record] = {}
        with self._session() as connection:
            for number in numbers:
                query = f"SELECT {COLUMNS} FROM records WHERE id = ?"
                for record in reader.records(connection.execute(query, (number,))):
                    found[number] = record
        reader.warn(self._url)
        return found

    def leading(self, task: TaskKey, most: int) -> list[Record]:
        return self._select(
            task,
            f"SELECT {COLUMNS} FROM records WHERE {OF_TASK} AND settled AND seconds IS NOT NULL "
            f"ORDER BY seconds, id LIMIT {int(most)}",
        )

    def best(self, task: TaskKey, allowed: Set[Permission] = EVERYTHING) -> Record | None:
        reader = RowReader(with_trace)
        found = best_record(
            [s for s in self.summaries(task) if s.is_within(allowed)],
            lambda numbers: self.load(task, numbers),
            lambda record: next(reader.records([(record,)]), None) is not None,
        )
        reader.warn(self._url)
        return found

    def damaged(self) -> list[str]:
        with self._session() as connection:
            return [problem for _, problem in _damaged_records(connection)]

    def remove_damaged(self) -> None:
        with self._transaction() as connection:
            for record_id, _ in _damaged_records(connection):
                connection.execute("DELETE FROM records WHERE id = ?", (record_id,))
            drop_unused(connection)
        self._free_space()

    def _free_space(self) -> None:
        """Give the space of removed records back to the disk; where another process writes, a later removal does."""
        with self._session() as connection:
            try:
                connection.execute("VACUUM")
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise

    def count(self, task: TaskKey) -> int:
        with self._session() as connection:
            query = f"SELECT count(*) FROM records WHERE {OF_TASK}"
            (count,) = connection.execute(query, key_of(task)).fetchone()
        return int(count)

    def tasks(self) -> tuple[TaskKey, ...]:
        with self._session() as connection:
            return tuple(TaskKey(*row[1:]) for row in connection.execute(ALL_WITH_RECORDS).fetchall())

    def stats(self) -> DatabaseStats:
        with self._session() as connection:
            tasks = connection.execute(ALL_WITH_RECORDS).fetchall()
        stats = tuple(self._task_stats(row[0], TaskKey(*row[1:])) for row in tasks)
        return DatabaseStats(self._url, sum(s.records for s in stats), stats)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _task_stats(self, number: int, task: TaskKey) -> TaskStats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedRecordWarning)  # of what cannot be read, `records` tells
            best = self.best(task)
        with self._session() as connection:
            counts = connection.execute(
                "SELECT failure, count(*) FROM records WHERE task = ? GROUP BY failure", (number,)
            )
            failures = Counter(dict(counts.fetchall()))
            ((first, last, spaces),) = connection.execute(
                "SELECT min(timestamp), max(timestamp), count(DISTINCT space) FROM records WHERE task = ?", (number,)
            ).fetchall()
            versions = connection.execute(
                "SELECT code_version FROM records WHERE task = ? GROUP BY code_version ORDER BY min(id)", (number,)
            ).fetchall()
            name, settings = _program_of(connection, number)
        records = failures.total()
        failures.pop(None, None)
        ranked = tuple(sorted(failures.items(), key=lambda item: (-item[1], item[0])))
        best_seconds = None if best is None else best.seconds
        code_versions = tuple(v for (v,) in versions)
        once = None if best is None else best.prologue_seconds
        return TaskStats(
            task=task,
            program=name,
            params=settings,
            records=records,
            failures=ranked,
            best_seconds=best_seconds,
            first=first,
            last=last,
            code_versions=code_versions,
            spaces=spaces,
            best_prologue_seconds=once,
        )

    def _select(self, task: TaskKey, query: str) -> list[Record]:
        reader = RowReader(lambda row: record_of(task, row))
        with self._session() as connection:
            rows = connection.execute(query, key_of(task))
            found = list(reader.records(rows))
        reader.warn(self._url)
        return found

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A session whose statements are committed together, or not at all."""
        with self._session() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def _session(self) -> Iterator[sqlite3.Connection]:
        # An interrupt between two statements of Python would leave a transaction open, or the lock taken.
        with interrupts.put_off(), self._lock, explain_errors(self._url, _BUSY_SECONDS):
            yield self._connection


def open_sqlite(url: str, access: Access) -> SQLiteDatabase:
    """Open the file of a `sqlite:///PATH` URL; unless only to read, create or upgrade it when needed.

    One that is there and may not be written is opened to be read where it would be created otherwise: a search that has
    nothing to add needs no more, and any other is told at its first change.
    """
    path = _path(url)
    with explain_errors(url, _BUSY_SECONDS):
        if url != IN_MEMORY:
            _require_there(url, Path(path), access)
        is_kept = access is Access.CREATE and not _may_write(Path(path))
        if url != IN_MEMORY and (access is Access.READ or is_kept):
            return SQLiteDatabase(url, _open_to_read(url, Path(path)))
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _prepare(url, connection)
        except BaseException:
            connection.close()
            raise
    return SQLiteDatabase(url, connection)


def _may_write(file: Path) -> bool:
    """Whether a file that is there may be written, and others beside it, which SQLite makes."""
    return not file.exists() or (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def _require_there(url: str, file: Path, access: Access) -> None:
    if file.exists() and not file.is_file():
        raise DatabaseError(
            f"`{url}` is no file, but a folder or a device", hint="name a file, which need not be there yet"
        )
    if access is not Access.CREATE and not file.exists():
        raise NoRecord(f"there is no database at `{url}`", hint="`metasched tune` makes one")
    if not file.parent.is_dir():
        raise DatabaseError(
            f"cannot make `{url}`: there is no folder `{file.parent}`", hint="make the folder, or give another `db=`"
        )


def _open_to_read(url: str, file: Path) -> sqlite3.Connection:
    """A connection that writes nothing. A file of an older version is upgraded in memory."""
    connection = connect_to_read(file, _BUSY_SECONDS)
    try:
        found = _known_version(url, connection)
        if found == SCHEMA_VERSION:
            connection.execute("PRAGMA query_only = ON")
            return connection
        copy = in_memory(connection)
    except BaseException:
        connection.close()
        raise
    connection.close()
    _upgrade(url, copy)
    copy.execute("PRAGMA query_only = ON")
    return copy


def _path(url: str) -> str:
    if not url.startswith(SQLITE) or url == SQLITE:
        raise DatabaseError(
            f"`{url}` names no file",
            hint="`sqlite:///NAME.db` is relative to the working folder, `sqlite:////FOLDER/NAME.db` is absolute",
        )
    return url.removeprefix(SQLITE)


def _prepare(url: str, connection: sqlite3.Connection) -> None:
    """Set the connection up, and bring the schema to this version."""
    found = _known_version(url, connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if found != SCHEMA_VERSION:
        _upgrade(url, connection)


def _known_version(url: str, connection: sqlite3.Connection) -> int:
    """The schema's version. Raises DatabaseError for one that is newer than this code."""
    found = _schema_version(url, connection)
    if found > SCHEMA_VERSION:
        raise DatabaseError(
            f"`{url}` was written by a newer metasched (schema {found}; this one knows {SCHEMA_VERSION})",
            hint="upgrade metasched, or give another `db=`",
        )
    return found


def _upgrade(url: str, connection: sqlite3.Connection) -> None:
    (checked,) = connection.execute("PRAGMA foreign_keys").fetchone()
    # As long as tables are made anew (https://sqlite.org/lang_altertable.html, section 7).
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have made the schema in the meantime.
        migrate(connection, _schema_version(url, connection))
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    connection.execute(f"PRAGMA foreign_keys = {checked}")


def _schema_version(url: str, connection: sqlite3.Connection) -> int:
    """The schema's version; 0 for an empty file."""
    application = _pragma(connection, "application_id")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    version = _pragma(connection, "user_version")
    if application == _APPLICATION_ID and version < 1:
        raise DatabaseError(f"`{url}` is damaged: its schema has version {version}", hint="give another `db=`")
    if application == _APPLICATION_ID or (application == 0 and tables == 0):
        return version
    raise DatabaseError(f"`{url}` is an SQLite file of something else, left untouched", hint="give another `db=`")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _damaged_records(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    """The records that cannot be read or whose trace does not parse: their numbers, and what is wrong."""
    found = []
    for record_id, *row in connection.execute(f"SELECT id, {COLUMNS} FROM records ORDER BY id").fetchall():
        reader = RowReader(lambda row: with_trace((record_of(ANY_TASK, row),)))
        if next(reader.records([tuple(row)]), None) is None:
            found.append((int(record_id), reader.problems[0]))
    return found


def _insert(connection: sqlite3.Connection, record: Record) -> int:
    """Insert a row, and return its number."""
    cursor = connection.execute(_INSERT, (number_of(connection, record.task), *values_of(record)))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _identity(record: Record) -> tuple[object, ...]:
    """The parameters of the query `_IDENTICAL`."""
    return *key_of(record.task), record.trace, record.timestamp, record.trial, record.seed


def _program_of(connection: sqlite3.Connection, task_id: int) -> tuple[str, tuple[tuple[str, Setting], ...]]:
    """The name and parameters of a task's program, by the first of its records that has them."""
    for trace, params in connection.execute(
        "SELECT trace, params FROM records WHERE task = ? ORDER BY id", (task_id,)
    ).fetchall():
        try:
            return program_name(trace), settings_from_json(json.loads(params))
        except (ValueError, TypeError, RecursionError):  # damaged, which reading it would say
            continue
    return "?", ()
