"""Records in a PostgreSQL database that many processes on many machines write to at once.

Whoever writes to a task holds its lock until the end of the transaction. So records of a task get their numbers in the
order in which they are committed, and who has read up to a number misses none with a smaller one; and no two processes
claim one code. Readers wait for nobody.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

import psycopg

from metasched.database import (
    BaseDatabase,
    DamagedRecordWarning,
    DatabaseError,
    DatabaseStats,
    Duplicate,
    Record,
    SearchKey,
    Summary,
    TaskKey,
    TaskStats,
)
from metasched.database.best import best_record
from metasched.database.check import MOST_CHARACTERS
from metasched.database.claims import Claimant
from metasched.database.rows import (
    ANY_TASK,
    COLUMNS,
    COUNT,
    DERIVED_COLUMNS,
    IN_SHORT,
    TIMED_COLUMNS,
    RowReader,
    program_name,
    record_of,
    timed_values_of,
    values_of,
    with_trace,
)
from metasched.ir.source import Setting, settings_from_json
from metasched.permissions import EVERYTHING, Permission
from metasched.support import interrupts
from metasched_postgres import claims
from metasched_postgres.errors import explain_errors

Connection = psycopg.Connection[Any]

# After so long, a connection may have been ended by the server, or by what is between.
_IDLE_S = 5.0
_MOST_BYTES = 4 * MOST_CHARACTERS
_TEXTS = frozenset(
    {"program", "params", "trace", "visits", "failure", "phases", "code", "role", "space", "code_version"}
)
_INSERT = (
    f"INSERT INTO metasched.records (task, {COLUMNS}, {DERIVED_COLUMNS}) "
    f"VALUES (%s, {', '.join(['%s'] * COUNT)}) RETURNING id"
)
_UPDATE = f"UPDATE metasched.records SET {', '.join(f'{name} = %s' for name in TIMED_COLUMNS)}"
_IDENTICAL = "task = %s AND trace = %s AND timestamp = %s AND trial = %s AND seed = %s"


def _bounded_column(column: str) -> str:
    """A column, or null for a text that is longer than any that is recorded: it is not even read."""
    if column not in _TEXTS:
        return column
    return f"CASE WHEN octet_length({column}) <= {_MOST_BYTES} THEN {column} END"


_RECORD = ", ".join(_bounded_column(column) for column in COLUMNS.split(", "))
_SUMMARY = ", ".join(
    f"left({column}, {MOST_CHARACTERS})" if column in {"structure", "decisions"} else column
    for column in IN_SHORT.split(", ")
)


class PostgresDatabase(BaseDatabase):
    """See `metasched.database.base.Database`. May be used from any thread, one call at a time.

    `connect` makes a connection; a new one is made where the server has ended the last, so that a database that was
    restarted ends no run that had nothing to write meanwhile.
    """

    def __init__(self, url: str, connection: Connection, connect: Any) -> None:
        self._url = url
        self._connection = connection
        self._connect = connect
        self._lock = threading.Lock()
        self._closed = False
        self._used = time.monotonic()

    @property
    def url(self) -> str:
        return self._url

    def add_all(self, records: Sequence[Record]) -> list[int]:
        with self._transaction() as connection:
            tasks = {task: self._lock_task(connection, task) for task in _in_lock_order({r.task for r in records})}
            return [_number_in(connection.execute(_INSERT, (tasks[r.task], *values_of(r)))) for r in records]

    def update(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            tasks = {task: self._lock_task(connection, task) for task in _in_lock_order({r.task for r in records})}
            for record in records:
                identity = _identity(tasks[record.task], record)
                connection.execute(f"{_UPDATE} WHERE {_IDENTICAL}", (*timed_values_of(record), *identity))

    def remove(self, records: Sequence[Record]) -> None:
        with self._transaction() as connection:
            for task in _in_lock_order({r.task for r in records}):
                number = self._lock_task(connection, task)
                for record in (r for r in records if r.task == task):
                    connection.execute(f"DELETE FROM metasched.records WHERE {_IDENTICAL}", _identity(number, record))
                _drop_duplicates(connection, number)

    def add_duplicates(self, search: SearchKey, duplicates: Sequence[Duplicate]) -> None:
        with self._transaction() as connection:
            key = (self._lock_task(connection, search.task), search.space, search.code_version)
            for duplicate in duplicates:
                connection.execute(
                    "INSERT INTO metasched.duplicates (task, space, code_version, trace, code, batch, place) "
                    "VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    (*key, *astuple(duplicate)),
                )

    def duplicates(self, search: SearchKey) -> list[Duplicate]:
        with self._session() as connection:
            rows = connection.execute(
                "SELECT trace, code, batch, place FROM metasched.duplicates WHERE task = %s AND space = %s AND "
                "code_version = %s AND octet_length(trace) <= %s ORDER BY id",
                (_task_number(connection, search.task), search.space, search.code_version, _MOST_BYTES),
            )
            return [Duplicate(*row) for row in rows.fetchall()]

    def join(self, search: SearchKey, claimant: Claimant) -> None:
        with self._of_search(search) as (connection, key):
            claims.join(connection, key, claimant)

    def leave(self, search: SearchKey, claimant: Claimant) -> None:
        with self._of_search(search) as (connection, key):
            claims.leave(connection, key, claimant)

    def others(self, search: SearchKey, claimant: Claimant) -> int:
        with self._session() as connection:
            key = (_task_number(connection, search.task), search.space, search.code_version)
            return claims.count_others(connection, key, claimant)

    def under_way(self, search: SearchKey, claimant: Claimant) -> int:
        with self._session() as connection:
            key = (_task_number(connection, search.task), search.space, search.code_version)
            return claims.under_way(connection, key, claimant)

    def claim(self, search: SearchKey, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
        with self._of_search(search) as (connection, key):
            return claims.claim(connection, key, codes, limit, claimant)

    def release(self, search: SearchKey, claimant: Claimant) -> None:
        with self._of_search(search) as (connection, key):
            claims.release(connection, key, claimant)

    def records(self, task: TaskKey) -> list[Record]:
        with self._session() as connection:
            query = f"SELECT {_RECORD} FROM metasched.records WHERE task = %s ORDER BY id"
            rows = connection.execute(query, (_task_number(connection, task),)).fetchall()
        return self._read(task, rows)

    def summaries(self, task: TaskKey, after: int = 0) -> list[Summary]:
        with self._session() as connection:
            query = f"SELECT {_SUMMARY} FROM metasched.records WHERE task = %s AND id > %s ORDER BY id"
            return [Summary._make(row) for row in connection.execute(query, (_task_number(connection, task), after))]

    def load(self, task: TaskKey, numbers: Iterable[int]) -> dict[int, Record]:
        with self._session() as connection:
            query = f"SELECT id, {_RECORD} FROM metasched.records WHERE id = ANY(%s)"
            rows = connection.execute(query, (list(numbers),)).fetchall()
        reader = RowReader(lambda row: record_of(task, row))
        found = {number: record for number, *row in rows for record in reader.records([tuple(row)])}
        reader.warn(self._url)
        return found

    def leading(self, task: TaskKey, most: int) -> list[Record]:
        with self._session() as connection:
            query = (
                f"SELECT {_RECORD} FROM metasched.records WHERE task = %s AND seconds IS NOT NULL AND settled != 0 "
                "ORDER BY seconds, id LIMIT %s"
            )
            rows = connection.execute(query, (_task_number(connection, task), most)).fetchall()
        return self._read(task, rows)

    def best(self, task: TaskKey, allowed: Set[Permission] = EVERYTHING) -> Record | None:
        reader = RowReader(with_trace)
        found = best_record(
            [s for s in self.summaries(task) if s.is_within(allowed)],
            lambda numbers: self.load(task, numbers),
            lambda record: next(reader.records([(record,)]), None) is not None,
        )
        reader.warn(self._url)
        return found

    def count(self, task: TaskKey) -> int:
        with self._session() as connection:
            query = "SELECT count(*) FROM metasched.records WHERE task = %s"
            return _number_in(connection.execute(query, (_task_number(connection, task),)))

    def damaged(self) -> list[str]:
        with self._session() as connection:
            return [problem for _, problem in _damaged_records(connection)]

    def remove_damaged(self) -> None:
        with self._transaction() as connection:
            numbers = [number for number, _ in _damaged_records(connection)]
            connection.execute("DELETE FROM metasched.records WHERE id = ANY(%s)", (numbers,))

    def stats(self) -> DatabaseStats:
        with self._session() as connection:
            tasks = connection.execute(
                "SELECT id, program_hash, target, threads, surroundings FROM metasched.tasks "
                "WHERE EXISTS (SELECT 1 FROM metasched.records WHERE task = tasks.id) ORDER BY id"
            ).fetchall()
        stats = tuple(self._task_stats(number, TaskKey(*key)) for number, *key in tasks)
        return DatabaseStats(self._url, sum(s.records for s in stats), stats)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._connection.close()

    def _task_stats(self, number: int, task: TaskKey) -> TaskStats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedRecordWarning)  # of what cannot be read, `records` tells
            best = self.best(task)
        with self._session() as connection:
            failures = Counter(
                dict(
                    connection.execute(
                        "SELECT failure, count(*) FROM metasched.records WHERE task = %s GROUP BY failure", (number,)
                    ).fetchall()
                )
            )
            ((first, last, spaces),) = connection.execute(
                "SELECT min(timestamp), max(timestamp), count(DISTINCT space) FROM metasched.records WHERE task = %s",
                (number,),
            ).fetchall()
            versions = connection.execute(
                "SELECT code_version FROM metasched.records WHERE task = %s GROUP BY code_version ORDER BY min(id)",
                (number,),
            ).fetchall()
            name, settings = _program_of(connection, number)
        records = failures.total()
        failures.pop(None, None)
        ranked = tuple(sorted(failures.items(), key=lambda item: (-item[1], item[0])))
        return TaskStats(
            task,
            name,
            settings,
            records,
            ranked,
            None if best is None else best.seconds,
            first,
            last,
            tuple(version for (version,) in versions),
            spaces,
            None if best is None else best.prologue_seconds,
        )

    def _read(self, task: TaskKey, rows: Iterable[tuple[Any, ...]]) -> list[Record]:
        reader = RowReader(lambda row: record_of(task, row))
        found = list(reader.records(rows))
        reader.warn(self._url)
        return found

    def _lock_task(self, connection: Connection, task: TaskKey) -> int:
        """The number of a task, which is added if missing, and whose lock is held to the end of the transaction."""
        digest = _digest(task)
        connection.execute(
            "INSERT INTO metasched.tasks (digest, program_hash, target, threads, surroundings) "
            "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING",
            (digest, *astuple(task)),
        )
        number = _number_in(connection.execute("SELECT id FROM metasched.tasks WHERE digest = %s", (digest,)))
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
        return number

    @contextmanager
    def _of_search(self, search: SearchKey) -> Iterator[tuple[Connection, claims.Search]]:
        with self._transaction() as connection:
            yield connection, (self._lock_task(connection, search.task), search.space, search.code_version)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A session whose statements are committed together, or not at all."""
        with self._session() as connection, connection.transaction():
            yield connection

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        with interrupts.put_off(), self._lock, explain_errors(self._url):
            if self._closed:
                raise DatabaseError(f"`{self._url}`: Cannot operate on a closed database.")
            if time.monotonic() - self._used > _IDLE_S and not _is_alive(self._connection):
                self._connection = self._connect()
            yield self._connection
            self._used = time.monotonic()


def _is_alive(connection: Connection) -> bool:
    """Whether the server still answers on a connection: it may have been restarted."""
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        connection.close()
        return False
    return True


def _digest(task: TaskKey) -> str:
    return hashlib.sha256(json.dumps(astuple(task)).encode()).hexdigest()


def _in_lock_order(tasks: Iterable[TaskKey]) -> list[TaskKey]:
    """Tasks in the order in which everybody locks them, so that nobody waits for who waits for them."""
    return sorted(tasks, key=_digest)


def _task_number(connection: Connection, task: TaskKey) -> int:
    """The number of a task; 0, which none has, where there is nothing of it."""
    row = connection.execute("SELECT id FROM metasched.tasks WHERE digest = %s", (_digest(task),)).fetchone()
    return 0 if row is None else int(row[0])


def _number_in(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def _identity(task: int, record: Record) -> tuple[object, ...]:
    return task, record.trace, record.timestamp, record.trial, record.seed


def _drop_duplicates(connection: Connection, task: int) -> None:
    """Remove the duplicates of a task that has no record left."""
    connection.execute(
        "DELETE FROM metasched.duplicates WHERE task = %s AND "
        "NOT EXISTS (SELECT 1 FROM metasched.records WHERE records.task = duplicates.task)",
        (task,),
    )


def _damaged_records(connection: Connection) -> list[tuple[int, str]]:
    """The records that cannot be read or whose trace does not parse: their numbers, and what is wrong."""
    found = []
    for number, *row in connection.execute(f"SELECT id, {_RECORD} FROM metasched.records ORDER BY id").fetchall():
        reader = RowReader(lambda row: with_trace((record_of(ANY_TASK, row),)))
        if next(reader.records([tuple(row)]), None) is None:
            found.append((int(number), reader.problems[0]))
    return found


def _program_of(connection: Connection, task: int) -> tuple[str, tuple[tuple[str, Setting], ...]]:
    """The name and parameters of a task's program, by the first of its records that has them."""
    query = "SELECT left(trace, 1000), params FROM metasched.records WHERE task = %s ORDER BY id LIMIT 100"
    for trace, params in connection.execute(query, (task,)).fetchall():
        try:
            return program_name(trace), settings_from_json(json.loads(params))
        except (ValueError, TypeError, RecursionError):  # damaged, which reading it would say
            continue
    return "?", ()
