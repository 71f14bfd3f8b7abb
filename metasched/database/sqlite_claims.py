"""Claims as rows of an SQLite file: see `metasched.database.claims`. Those that write are called in a transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import astuple

from metasched.database.claims import Claimant
from metasched.database.record import TaskKey
from metasched.database.sqlite_tasks import OF_TASK, drop_unused, key_of, number_of

_OWN = "host = ? AND pid = ? AND started = ?"
# What a process claims by tuning at all, where others claim codes.
_PRESENCE = ""


def join(connection: sqlite3.Connection, task: TaskKey, claimant: Claimant) -> None:
    """Say that a process tunes a task."""
    _drop_void(connection, task)
    connection.execute(
        f"DELETE FROM claims WHERE {OF_TASK} AND code = ? AND {_OWN}", (*key_of(task), _PRESENCE, *astuple(claimant))
    )
    _add(connection, task, _PRESENCE, claimant)


def leave(connection: sqlite3.Connection, task: TaskKey, claimant: Claimant) -> None:
    """Give up whatever a process claimed of a task."""
    connection.execute(f"DELETE FROM claims WHERE {OF_TASK} AND {_OWN}", (*key_of(task), *astuple(claimant)))
    drop_unused(connection)


def claim(
    connection: sqlite3.Connection, task: TaskKey, codes: Sequence[str], limit: int, claimant: Claimant
) -> list[str]:
    """Claim the first `limit` of the codes that have no record and that no other process has claimed."""
    _drop_void(connection, task)
    held = {code for code, holder, _ in _all(connection, task) if holder != claimant}
    recorded = connection.execute(f"SELECT code FROM records WHERE {OF_TASK}", key_of(task)).fetchall()
    known = held | {code for (code,) in recorded}
    taken = [code for code in codes if code not in known][: max(0, limit)]
    for code in taken:
        _add(connection, task, code, claimant)
    return taken


def release(connection: sqlite3.Connection, task: TaskKey, claimant: Claimant) -> None:
    """Give up a process's claims on codes."""
    connection.execute(
        f"DELETE FROM claims WHERE {OF_TASK} AND code != ? AND {_OWN}", (*key_of(task), _PRESENCE, *astuple(claimant))
    )


def others(connection: sqlite3.Connection, task: TaskKey, claimant: Claimant) -> int:
    """How many other processes tune a task."""
    return sum(code == _PRESENCE for code in _held_by_others(connection, task, claimant))


def under_way(connection: sqlite3.Connection, task: TaskKey, claimant: Claimant) -> int:
    """How many codes other processes have claimed."""
    return sum(code != _PRESENCE for code in _held_by_others(connection, task, claimant))


def _held_by_others(connection: sqlite3.Connection, task: TaskKey, claimant: Claimant) -> list[str]:
    claims = _all(connection, task)
    return [code for code, holder, since in claims if holder != claimant and not holder.is_gone(since)]


def _all(connection: sqlite3.Connection, task: TaskKey) -> list[tuple[str, Claimant, float]]:
    """Every claim on a task: the code, who holds it, and since when."""
    rows = connection.execute(f"SELECT code, claimed, host, pid, started FROM claims WHERE {OF_TASK}", key_of(task))
    return [(code, Claimant(*holder), claimed) for code, claimed, *holder in rows.fetchall()]


def _drop_void(connection: sqlite3.Connection, task: TaskKey) -> None:
    for _, holder, since in _all(connection, task):
        if holder.is_gone(since):
            connection.execute(
                f"DELETE FROM claims WHERE {OF_TASK} AND {_OWN} AND claimed = ?",
                (*key_of(task), *astuple(holder), since),
            )


def _add(connection: sqlite3.Connection, task: TaskKey, code: str, claimant: Claimant) -> None:
    connection.execute(
        "INSERT INTO claims (task, code, host, pid, started, claimed) VALUES (?, ?, ?, ?, ?, ?)",
        (number_of(connection, task), code, *astuple(claimant), time.time()),
    )
