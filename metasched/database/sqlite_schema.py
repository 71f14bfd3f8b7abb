"""The tables of a database file, version by version, and how a file of an older version becomes one of the newest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from metasched.database.record import VisitKind, seconds_in_search, version_with_prologues, visit_groups
from metasched.database.rows import IN_SHORT, written_number
from metasched.database.summary import permissions_text
from metasched.database.visits_json import visits_from_json
from metasched.errors import MetaschedError
from metasched.ir.source import settings_from_json
from metasched.lang import parse_program
from metasched.measure.timing import LEAST_VISITS
from metasched.schedule.trace_outline import outline_of

# Rows that are read before any of them is written.
_CHUNK_ROWS = 1000

# --- from schema 2: data beside the traces, and tasks up to names


def _fill_in(connection: sqlite3.Connection) -> None:
    """Compute the columns that older records lack."""
    last = 0
    while rows := connection.execute(
        "SELECT id, trace, visits, raced, program, params FROM records WHERE id > ? ORDER BY id LIMIT ?",
        (last, _CHUNK_ROWS),
    ).fetchall():
        connection.executemany(
            "UPDATE records SET structure = ?, decisions = ?, search_seconds = ?, settled = ?, turns = ?, repeats = ?, "
            "written = ? WHERE id = ?",
            [
                (
                    *outline_of(trace),
                    *_of_visits(visits, raced),
                    written_number(program, params),
                    number,
                )
                for number, trace, visits, raced, program, params in rows
            ],
        )
        last = rows[-1][0]


def _of_visits(text: str, raced: int) -> tuple[float | None, int, int, int]:
    """`search_seconds`, `settled`, `turns` and `repeats`; of what cannot be read, those of a failure."""
    try:
        visits = visits_from_json(json.loads(text))
        seconds = seconds_in_search(visits)
    except (ValueError, TypeError, RecursionError):  # reading the record reports it
        return None, 0, 0, 0
    turns, repeats = (len(visit_groups(visits, kind)) for kind in (VisitKind.TURN, VisitKind.REPEAT))
    return seconds, int(len(visits) >= LEAST_VISITS and not raced), turns, repeats


def _merge_tasks(connection: sqlite3.Connection) -> None:
    """Tasks that differ in the version of the code or in names only become one."""
    merged: dict[tuple[str, str, int], int] = {}
    for number, program_hash, target, threads in connection.execute(
        "SELECT id, program_hash, target, threads FROM tasks ORDER BY id"
    ).fetchall():
        key = (_structural_hash(connection, number) or program_hash, target, threads)
        kept = merged.setdefault(key, number)
        if kept == number:
            connection.execute("INSERT INTO new_tasks VALUES (?, ?, ?, ?)", (number, *key))
        for table in ("records", "duplicates"):
            connection.execute(f"UPDATE {table} SET task = ? WHERE task = ?", (kept, number))


def _structural_hash(connection: sqlite3.Connection, task: int) -> str | None:
    """The hash of a task's program, by the first of its records whose program parses; None where none does."""
    rows = connection.execute("SELECT DISTINCT program, params FROM records WHERE task = ?", (task,))
    for program, params in rows.fetchall():
        try:
            return parse_program(program, **dict(settings_from_json(json.loads(params)))).structural_hash()
        except (MetaschedError, ValueError, TypeError, RecursionError):  # damaged, which reading it would say
            continue
    return None


# --- from schema 3: times without prologues


def _mark_prologues(connection: sqlite3.Connection) -> None:
    """Set apart the times of programs with constant arguments: they are longer than those measured today."""
    rows = connection.execute("SELECT DISTINCT task, program, code_version FROM records").fetchall()
    for task, program, version in rows:
        marked = version_with_prologues(program, version)
        if marked != version:
            connection.execute(
                "UPDATE records SET code_version = ? WHERE task = ? AND code_version = ? AND program = ?",
                (marked, task, version, program),
            )
            connection.execute(
                "UPDATE duplicates SET code_version = ? WHERE task = ? AND code_version = ?", (marked, task, version)
            )


# --- from schema 4: what traces need to be allowed


def _note_permissions(connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT id, trace FROM records WHERE trace LIKE '%annotate(%'").fetchall()
    needed = [(permissions_text(trace), number) for number, trace in rows]
    connection.executemany("UPDATE records SET permissions = ? WHERE id = ?", [row for row in needed if row[0]])


Step = str | Callable[[sqlite3.Connection], None]

# One entry a schema version: the steps that lead to it from the one before.
MIGRATIONS: tuple[tuple[Step, ...], ...] = (
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
    (
        # Of each record the space and the version of the code, and as data what a search needs of it.
        "ALTER TABLE records ADD COLUMN space TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE records ADD COLUMN code_version TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE records ADD COLUMN structure TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE records ADD COLUMN decisions TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE records ADD COLUMN search_seconds REAL",
        "ALTER TABLE records ADD COLUMN settled INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE records ADD COLUMN turns INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE records ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE records ADD COLUMN written INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE duplicates ADD COLUMN space TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE duplicates ADD COLUMN code_version TEXT NOT NULL DEFAULT ''",
        "UPDATE records SET code_version = (SELECT code_version FROM tasks WHERE tasks.id = task)",
        "UPDATE duplicates SET code_version = (SELECT code_version FROM tasks WHERE tasks.id = task)",
        _fill_in,
        """CREATE TABLE new_tasks (
            id INTEGER PRIMARY KEY,
            program_hash TEXT NOT NULL,
            target TEXT NOT NULL,
            threads INTEGER NOT NULL,
            UNIQUE (program_hash, target, threads)
        ) STRICT""",
        _merge_tasks,
        "DROP TABLE tasks",
        "ALTER TABLE new_tasks RENAME TO tasks",
        "DROP TABLE claims",
        """CREATE TABLE claims (
            task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            space TEXT NOT NULL,
            code_version TEXT NOT NULL,
            code TEXT NOT NULL,
            host TEXT NOT NULL,
            pid INTEGER NOT NULL,
            started REAL NOT NULL,
            claimed REAL NOT NULL
        ) STRICT""",
        "CREATE INDEX claims_by_search ON claims (task, space, code_version)",
        "DROP INDEX duplicates_by_task",
        "CREATE INDEX duplicates_by_search ON duplicates (task, space, code_version)",
        "DROP INDEX records_by_task",
        "CREATE INDEX records_by_code ON records (task, code)",
    ),
    ("ALTER TABLE records ADD COLUMN prologue_seconds REAL", _mark_prologues),
    (
        # Of each record what its trace lets results differ by.
        "ALTER TABLE records ADD COLUMN permissions TEXT NOT NULL DEFAULT ''",
        _note_permissions,
        "DROP INDEX IF EXISTS records_in_short",
        f"CREATE INDEX records_in_short ON records (task, {IN_SHORT.removeprefix('id, ')})",
    ),
    (
        # Tasks are told apart by what their kernels were timed in.
        """CREATE TABLE new_tasks (
            id INTEGER PRIMARY KEY,
            program_hash TEXT NOT NULL,
            target TEXT NOT NULL,
            threads INTEGER NOT NULL,
            surroundings TEXT NOT NULL,
            UNIQUE (program_hash, target, threads, surroundings)
        ) STRICT""",
        "INSERT INTO new_tasks SELECT id, program_hash, target, threads, '' FROM tasks",
        "DROP TABLE tasks",
        "ALTER TABLE new_tasks RENAME TO tasks",
    ),
    # What the model expected of a candidate before it was measured.
    ("ALTER TABLE records ADD COLUMN expected_seconds REAL",),
    (
        # A record has its number alone, also when it is removed: a search that goes on knows records by their numbers.
        """CREATE TABLE new_records (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            task INTEGER NOT NULL REFERENCES tasks (id),
            program TEXT NOT NULL,
            params TEXT NOT NULL,
            trace TEXT NOT NULL,
            visits TEXT NOT NULL,
            seconds REAL,
            failure TEXT,
            raced INTEGER NOT NULL,
            phases TEXT NOT NULL,
            timestamp REAL NOT NULL,
            seed INTEGER NOT NULL,
            trial INTEGER NOT NULL,
            batch INTEGER NOT NULL,
            place INTEGER NOT NULL,
            code TEXT NOT NULL,
            role TEXT NOT NULL,
            space TEXT NOT NULL,
            code_version TEXT NOT NULL,
            structure TEXT NOT NULL,
            decisions TEXT NOT NULL,
            search_seconds REAL,
            settled INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            repeats INTEGER NOT NULL,
            written INTEGER NOT NULL,
            prologue_seconds REAL,
            permissions TEXT NOT NULL,
            expected_seconds REAL
        ) STRICT""",
        "INSERT INTO new_records SELECT * FROM records ORDER BY id",
        "DROP TABLE records",
        "ALTER TABLE new_records RENAME TO records",
        "CREATE INDEX records_by_code ON records (task, code)",
        f"CREATE INDEX records_in_short ON records (task, {IN_SHORT.removeprefix('id, ')})",
    ),
)
SCHEMA_VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, found: int, wanted: int = SCHEMA_VERSION) -> None:
    """Bring the schema from a version to a later one; in a transaction."""
    for version in range(found, wanted):
        for step in MIGRATIONS[version]:
            if isinstance(step, str):
                connection.execute(step)
            else:
                step(connection)
