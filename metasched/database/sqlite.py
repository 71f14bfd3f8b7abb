"""Records in one SQLite file, in WAL mode: readers never wait, and a killed writer loses nothing it committed."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metasched.database import sqlite_claims
from metasched.database.base import Access, BaseDatabase
from metasched.database.best import best_of
from metasched.database.check import parsed_trace
from metasched.database.claims import Claimant
from metasched.database.record import DatabaseError, DatabaseStats, Duplicate, Record, Role, TaskKey, TaskStats
from metasched.database.sqlite_errors import explained
from metasched.database.sqlite_reading import connect_to_read, in_memory
from metasched.database.sqlite_rows import RowReader, text_of
from metasched.database.sqlite_tasks import OF_TASK, drop_unused, key_of, number_of
from metasched.database.visits_json import visits_from_json, visits_to_json
from metasched.errors import NoRecord
from metasched.ir.source import Setting, settings_from_json

_PREFIX = "sqlite:///"
_MEMORY = ":memory:"
_APPLICATION_ID = 0x6D736368  # "msch", in the file's header: tells our files from anyone else's
_BUSY_SECONDS = 10.0

# One entry a schema version: the statements that lead to it from the one before.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE tasks (
            id INTEGER PRIMARY KEY,
            program_hash TEXT NOT NULL,
            target TEXT NOT NULL,
            threads INTEGER NOT NULL,
            code_version TEXT NOT NULL,
            UNIQUE (program_hash, target, threads, code_version)
        ) STRICT""",
        """CREATE TABLE records (
            id INTEGER PRIMARY KEY,
            task INTEGER NOT NULL REFERENCES tasks (id),
            program TEXT NOT NULL,
            params TEXT NOT NULL,
            trace TEXT NOT NULL,
            times TEXT NOT NULL,
            seconds REAL,
            failure TEXT,
            raced INTEGER NOT NULL,
            phases TEXT NOT NULL,
            timestamp REAL NOT NULL,
            seed INTEGER NOT NULL,
            trial INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX records_by_task ON records (task, seconds)",
    ),
    (
        # Samples by visit: what was there before is one visit. What does not read stays as it is, to be told of.
        "ALTER TABLE records RENAME COLUMN times TO visits",
        """UPDATE records SET visits = CASE
            WHEN failure IS NOT NULL AND visits = '[]' THEN visits
            WHEN json_valid(visits) THEN json_array(json_object('kind', 'search', 'group', '', 'times', json(visits)))
            ELSE visits END""",
        "ALTER TABLE records ADD COLUMN batch INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE records ADD COLUMN place INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE records ADD COLUMN code TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE records ADD COLUMN role TEXT NOT NULL DEFAULT 'candidate'",
        """CREATE TABLE duplicates (
            id INTEGER PRIMARY KEY,
            task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            trace TEXT NOT NULL,
            code TEXT NOT NULL,
            batch INTEGER NOT NULL,
            place INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX duplicates_by_task ON duplicates (task)",
        """CREATE TABLE claims (
            task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            code TEXT NOT NULL,
            host TEXT NOT NULL,
            pid INTEGER NOT NULL,
            started REAL NOT NULL,
            claimed REAL NOT NULL
        ) STRICT""",
        "CREATE INDEX claims_by_task ON claims (task, code)",
    ),
)
SCHEMA_VERSION = len(_MIGRATIONS)

_COLUMNS = "program, params, trace, visits, failure, raced, phases, timestamp, seed, trial, batch, place, code, role"
_PLACES = ", ".join("?" * (_COLUMNS.count(",") + 1))
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

    def add(self, record: Record) -> None:
        self.add_all((record,))

    def add_all(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            for record in records:
                self._insert(connection, record)

    def update(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            for record in records:
                connection.execute(
                    f"UPDATE records SET visits = ?, seconds = ?, failure = ?, raced = ? WHERE {_IDENTICAL}",
                    (_visits_text(record), record.seconds, record.failure, int(record.raced), *_identity(record)),
                )

    def remove(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            for record in records:
                connection.execute(f"DELETE FROM records WHERE {_IDENTICAL}", _identity(record))
            drop_unused(connection)
        with self._session() as connection:
            connection.execute("VACUUM")

    def _insert(self, connection: sqlite3.Connection, record: Record) -> None:
        row = (
            record.program,
            json.dumps(record.params),
            record.trace,
            _visits_text(record),
            record.failure,
            int(record.raced),
            json.dumps(record.phases, allow_nan=False),
            record.timestamp,
            record.seed,
            record.trial,
            record.batch,
            record.place,
            record.code,
            record.role.value,
        )
        connection.execute(
            f"INSERT INTO records ({_COLUMNS}, seconds, task) VALUES ({_PLACES}, ?, ?)",
            (*row, record.seconds, number_of(connection, record.task)),
        )

    def add_duplicates(self, task: TaskKey, duplicates: Sequence[Duplicate]) -> None:
        with self._transaction() as connection:
            number = number_of(connection, task)
            connection.executemany(
                "INSERT INTO duplicates (task, trace, code, batch, place) VALUES (?, ?, ?, ?, ?)",
                [(number, d.trace, d.code, d.batch, d.place) for d in duplicates],
            )

    def duplicates(self, task: TaskKey) -> list[Duplicate]:
        with self._session() as connection:
            rows = connection.execute(
                f"SELECT trace, code, batch, place FROM duplicates WHERE {OF_TASK} ORDER BY id", key_of(task)
            )
            return [Duplicate(*row) for row in rows.fetchall()]

    def join(self, task: TaskKey, claimant: Claimant) -> None:
        with self._transaction() as connection:
            sqlite_claims.join(connection, task, claimant)

    def leave(self, task: TaskKey, claimant: Claimant) -> None:
        with self._transaction() as connection:
            sqlite_claims.leave(connection, task, claimant)

    def others(self, task: TaskKey, claimant: Claimant) -> int:
        with self._session() as connection:
            return sqlite_claims.others(connection, task, claimant)

    def under_way(self, task: TaskKey, claimant: Claimant) -> int:
        with self._session() as connection:
            return sqlite_claims.under_way(connection, task, claimant)

    def claim(self, task: TaskKey, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
        with self._transaction() as connection:
            return sqlite_claims.claim(connection, task, codes, limit, claimant)

    def release(self, task: TaskKey, claimant: Claimant) -> None:
        with self._transaction() as connection:
            sqlite_claims.release(connection, task, claimant)

    def records(self, task: TaskKey) -> list[Record]:
        return self._select(task, f"SELECT {_COLUMNS} FROM records WHERE {OF_TASK} ORDER BY id")

    def best(self, task: TaskKey) -> Record | None:
        reader = RowReader(_with_trace)
        records = self.records(task)
        while (found := best_of(records)) is not None and next(reader.records([(found,)]), None) is None:
            records.remove(found)
        reader.warn(self._url)
        return found

    def damaged(self) -> list[str]:
        with self._session() as connection:
            return [problem for _, problem in _damaged(connection)]

    def remove_damaged(self) -> None:
        with self._transaction() as connection:
            for record_id, _ in _damaged(connection):
                connection.execute("DELETE FROM records WHERE id = ?", (record_id,))
            drop_unused(connection)
        with self._session() as connection:
            connection.execute("VACUUM")

    def count(self, task: TaskKey) -> int:
        with self._session() as connection:
            query = f"SELECT count(*) FROM records WHERE {OF_TASK}"
            (count,) = connection.execute(query, key_of(task)).fetchone()
        return int(count)

    def stats(self) -> DatabaseStats:
        with self._session() as connection:
            tasks = connection.execute(
                "SELECT id, program_hash, target, threads, code_version FROM tasks "
                "WHERE id IN (SELECT task FROM records) ORDER BY id"
            ).fetchall()
            stats = tuple(self._task_stats(connection, row[0], TaskKey(*row[1:])) for row in tasks)
        return DatabaseStats(self._url, sum(s.records for s in stats), stats)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _task_stats(self, connection: sqlite3.Connection, task_id: int, task: TaskKey) -> TaskStats:
        failures: Counter[str] = Counter()
        records = 0
        for failure, count in connection.execute(
            "SELECT failure, count(*) FROM records WHERE task = ? GROUP BY failure", (task_id,)
        ):
            records += count
            if failure is not None:
                failures[failure] = count
        reader = RowReader(lambda row: _record(task, row))
        rows = connection.execute(f"SELECT {_COLUMNS} FROM records WHERE task = ? ORDER BY id", (task_id,))
        best = best_of(list(reader.records(rows)))
        first, last = connection.execute(
            "SELECT min(timestamp), max(timestamp) FROM records WHERE task = ?", (task_id,)
        ).fetchone()
        ranked = tuple(sorted(failures.items(), key=lambda item: (-item[1], item[0])))
        name, settings = _program_of(connection, task_id)
        best_seconds = None if best is None else best.seconds
        return TaskStats(task, name, settings, records, ranked, best_seconds, first, last)

    def _select(self, task: TaskKey, query: str) -> list[Record]:
        reader = RowReader(lambda row: _record(task, row))
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
        with self._lock, explained(self._url, _BUSY_SECONDS):
            yield self._connection


def open_sqlite(url: str, access: Access) -> SQLiteDatabase:
    """Open the file of a `sqlite:///PATH` URL; unless only to read, create or upgrade it when needed."""
    path = _path(url)
    with explained(url, _BUSY_SECONDS):
        if path != _MEMORY:
            _require_there(url, Path(path), access)
        if access is Access.READ and path != _MEMORY:
            return SQLiteDatabase(url, _reading(url, Path(path)))
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _prepare(url, connection)
        except BaseException:
            connection.close()
            raise
    return SQLiteDatabase(url, connection)


def _require_there(url: str, file: Path, access: Access) -> None:
    if file.exists() and not file.is_file():
        raise DatabaseError(f"`{url}` is no file, but a folder or a device")
    if access is not Access.CREATE and not file.exists():
        raise NoRecord(f"there is no database at `{url}`. Hint: `metasched tune` makes one")
    if not file.parent.is_dir():
        raise DatabaseError(f"cannot make `{url}`: there is no folder `{file.parent}`")


def _reading(url: str, file: Path) -> sqlite3.Connection:
    """A connection by which nothing is written. What an older version wrote is upgraded in memory."""
    connection = connect_to_read(file, _BUSY_SECONDS)
    try:
        found = _known_version(url, connection)
        if found == SCHEMA_VERSION:
            return connection
        copy = in_memory(connection)
    except BaseException:
        connection.close()
        raise
    connection.close()
    _upgrade(url, copy)
    return copy


def _path(url: str) -> str:
    if not url.startswith(_PREFIX) or url == _PREFIX:
        raise DatabaseError(
            f"`{url}` names no file. Hint: `sqlite:///NAME.db` is relative to the working folder, "
            "`sqlite:////FOLDER/NAME.db` is absolute"
        )
    return url.removeprefix(_PREFIX)


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
            f"`{url}` was written by a newer metasched (schema {found}; this one knows {SCHEMA_VERSION}). "
            "Hint: upgrade metasched, or give another `db=`"
        )
    return found


def _upgrade(url: str, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have made the schema in the meantime.
        for version in range(_schema_version(url, connection), SCHEMA_VERSION):
            for statement in _MIGRATIONS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _schema_version(url: str, connection: sqlite3.Connection) -> int:
    """The schema's version; 0 for an empty file."""
    application = _pragma(connection, "application_id")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    version = _pragma(connection, "user_version")
    if application == _APPLICATION_ID and version < 1:
        raise DatabaseError(f"`{url}` is damaged: its schema has version {version}. Hint: give another `db=`")
    if application == _APPLICATION_ID or (application == 0 and tables == 0):
        return version
    raise DatabaseError(f"`{url}` is an SQLite file of something else, left untouched. Hint: give another `db=`")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _damaged(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    """The records that cannot be read or whose trace does not parse: their numbers, and what is wrong."""
    found = []
    for record_id, *row in connection.execute(f"SELECT id, {_COLUMNS} FROM records ORDER BY id").fetchall():
        reader = RowReader(lambda row: _with_trace((_record(_ANY_TASK, row),)))
        if next(reader.records([tuple(row)]), None) is None:
            found.append((int(record_id), reader.problems[0]))
    return found


_ANY_TASK = TaskKey("", "", 1, "any")


def _with_trace(row: tuple[Record]) -> Record:
    """The record of a row that was read already, if its trace parses."""
    parsed_trace(row[0])
    return row[0]


def _record(task: TaskKey, row: tuple[Any, ...]) -> Record:
    """Raises ValueError or TypeError for a row that was damaged."""
    program, params, trace, visits, failure, raced, phases, timestamp, seed, trial, batch, place, code, role = row
    return Record(
        task=task,
        program=program,
        params=settings_from_json(json.loads(params)),
        trace=trace,
        visits=visits_from_json(json.loads(visits)),
        failure=failure,
        raced=bool(raced),
        phases=tuple((str(name), float(seconds)) for name, seconds in json.loads(phases)),
        timestamp=timestamp,
        seed=seed,
        trial=trial,
        batch=batch,
        place=place,
        code=code,
        role=Role(role),
    )


def _visits_text(record: Record) -> str:
    return json.dumps(visits_to_json(record.visits), allow_nan=False)


def _identity(record: Record) -> tuple[object, ...]:
    """What `_IDENTICAL` is asked with."""
    return *key_of(record.task), record.trace, record.timestamp, record.trial, record.seed


def _program_of(connection: sqlite3.Connection, task_id: int) -> tuple[str, tuple[tuple[str, Setting], ...]]:
    """The name and parameters of a task's program, by the first of its records that has them."""
    for trace, params in connection.execute(
        "SELECT trace, params FROM records WHERE task = ? ORDER BY id", (task_id,)
    ).fetchall():
        try:
            return _program_name(trace), settings_from_json(json.loads(params))
        except (ValueError, TypeError, RecursionError):  # damaged, which reading it would say
            continue
    return "?", ()


def _program_name(trace: str) -> str:
    """`conv2d` of `trace 1 of conv2d[H=14]:`, without parsing the rest."""
    return trace.partition(" of ")[2].partition("[")[0].partition(":")[0].strip()
