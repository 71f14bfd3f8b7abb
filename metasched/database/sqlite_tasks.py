"""Tasks as rows of an SQLite file, and what belongs to a search of one."""

from __future__ import annotations

import sqlite3

from metasched.database.record import SearchKey, TaskKey

_COLUMNS = "program_hash, target, threads, surroundings"
_KEY = "program_hash = ? AND target = ? AND threads = ? AND surroundings = ?"
ALL_WITH_RECORDS = f"SELECT id, {_COLUMNS} FROM tasks WHERE id IN (SELECT task FROM records) ORDER BY id"
OF_TASK = f"task = (SELECT id FROM tasks WHERE {_KEY})"
OF_SEARCH = f"{OF_TASK} AND space = ? AND code_version = ?"


def key_of(task: TaskKey) -> tuple[str, str, int, str]:
    """The parameters of the condition `OF_TASK`."""
    return task.program_hash, task.target, task.threads, task.surroundings


def search_of(search: SearchKey) -> tuple[str, str, int, str, str, str]:
    """The parameters of the condition `OF_SEARCH`."""
    return *key_of(search.task), search.space, search.code_version


def number_of(connection: sqlite3.Connection, task: TaskKey) -> int:
    """The number of a task's row, which is added if missing."""
    key = key_of(task)
    connection.execute(f"INSERT OR IGNORE INTO tasks ({_COLUMNS}) VALUES (?, ?, ?, ?)", key)
    (number,) = connection.execute(f"SELECT id FROM tasks WHERE {_KEY}", key).fetchone()
    return int(number)


def drop_unused(connection: sqlite3.Connection) -> None:
    """Remove tasks that have no record and that nobody tunes."""
    connection.execute(
        "DELETE FROM tasks WHERE id NOT IN (SELECT task FROM records) AND id NOT IN (SELECT task FROM claims)"
    )
