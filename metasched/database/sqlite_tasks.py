"""Tasks as rows of an SQLite file."""

from __future__ import annotations

import sqlite3

from metasched.database.record import TaskKey

_KEY = "program_hash = ? AND target = ? AND threads = ? AND code_version = ?"
OF_TASK = f"task = (SELECT id FROM tasks WHERE {_KEY})"


def key_of(task: TaskKey) -> tuple[str, str, int, str]:
    """What `OF_TASK` is asked with."""
    return task.program_hash, task.target, task.threads, task.code_version


def number_of(connection: sqlite3.Connection, task: TaskKey) -> int:
    """The number of a task's row, which is made if it is not there."""
    key = key_of(task)
    connection.execute(
        "INSERT OR IGNORE INTO tasks (program_hash, target, threads, code_version) VALUES (?, ?, ?, ?)", key
    )
    (number,) = connection.execute(f"SELECT id FROM tasks WHERE {_KEY}", key).fetchone()
    return int(number)


def drop_unused(connection: sqlite3.Connection) -> None:
    """Remove tasks that have no record and that nobody tunes."""
    connection.execute(
        "DELETE FROM tasks WHERE id NOT IN (SELECT task FROM records) AND id NOT IN (SELECT task FROM claims)"
    )
