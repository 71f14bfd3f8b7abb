"""Claims as rows of an SQLite file: see `metasched.database.claims`. Those that write are called in a transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import astuple
from itertools import islice

from metasched.database.claims import Claimant
from metasched.database.record import SearchKey
from metasched.database.sqlite_tasks import OF_SEARCH, drop_unused, number_of, search_of

_CLAIMS = f"claims WHERE {OF_SEARCH}"
_OWN_CLAIM = "host = ? AND pid = ? AND started = ?"
# What a process claims by searching at all, where others claim codes.
_PRESENCE = ""


def join(connection: sqlite3.Connection, search: SearchKey, claimant: Claimant) -> None:
    """Register a process as working on a search."""
    _drop_void(connection, search)
    connection.execute(
        f"DELETE FROM {_CLAIMS} AND code = ? AND {_OWN_CLAIM}",
        (*search_of(search), _PRESENCE, *astuple(claimant)),
    )
    _add(connection, search, _PRESENCE, claimant)


def leave(connection: sqlite3.Connection, search: SearchKey, claimant: Claimant) -> None:
    """Give up whatever a process claimed of a search."""
    connection.execute(f"DELETE FROM {_CLAIMS} AND {_OWN_CLAIM}", (*search_of(search), *astuple(claimant)))
    drop_unused(connection)


def claim(
    connection: sqlite3.Connection, search: SearchKey, codes: Sequence[str], limit: int, claimant: Claimant
) -> list[str]:
    """Claim the first `limit` of the codes that have no record and that no other process has claimed."""
    _drop_void(connection, search)
    held = {code for code, holder, _ in _all_claims(connection, search) if holder != claimant}
    free = (code for code in codes if code not in held and not _is_recorded(connection, search, code))
    taken = list(islice(free, max(0, limit)))
    for code in taken:
        _add(connection, search, code, claimant)
    return taken


def _is_recorded(connection: sqlite3.Connection, search: SearchKey, code: str) -> bool:
    """Whether the search has a record of a code, by the index of codes: a search may have a hundred thousand."""
    query = f"SELECT 1 FROM records INDEXED BY records_by_code WHERE {OF_SEARCH} AND code = ? LIMIT 1"
    return connection.execute(query, (*search_of(search), code)).fetchone() is not None


def release(connection: sqlite3.Connection, search: SearchKey, claimant: Claimant) -> None:
    """Give up a process's claims on codes."""
    connection.execute(
        f"DELETE FROM {_CLAIMS} AND code != ? AND {_OWN_CLAIM}",
        (*search_of(search), _PRESENCE, *astuple(claimant)),
    )


def count_others(connection: sqlite3.Connection, search: SearchKey, claimant: Claimant) -> int:
    """The number of other processes at a search."""
    return sum(code == _PRESENCE for code in _held_by_others(connection, search, claimant))


def under_way(connection: sqlite3.Connection, search: SearchKey, claimant: Claimant) -> int:
    """How many codes other processes have claimed."""
    return sum(code != _PRESENCE for code in _held_by_others(connection, search, claimant))


def _held_by_others(connection: sqlite3.Connection, search: SearchKey, claimant: Claimant) -> list[str]:
    claims = _all_claims(connection, search)
    return [code for code, holder, since in claims if holder != claimant and not holder.is_gone(since)]


def _all_claims(connection: sqlite3.Connection, search: SearchKey) -> list[tuple[str, Claimant, float]]:
    """Every claim of a search: the code, who holds it, and since when."""
    rows = connection.execute(f"SELECT code, claimed, host, pid, started FROM {_CLAIMS}", search_of(search))
    return [(code, Claimant(*holder), claimed) for code, claimed, *holder in rows.fetchall()]


def _drop_void(connection: sqlite3.Connection, search: SearchKey) -> None:
    for _, holder, since in _all_claims(connection, search):
        if holder.is_gone(since):
            connection.execute(
                f"DELETE FROM {_CLAIMS} AND {_OWN_CLAIM} AND claimed = ?",
                (*search_of(search), *astuple(holder), since),
            )


def _add(connection: sqlite3.Connection, search: SearchKey, code: str, claimant: Claimant) -> None:
    connection.execute(
        "INSERT INTO claims (task, space, code_version, code, host, pid, started, claimed) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number_of(connection, search.task),
            search.space,
            search.code_version,
            code,
            *astuple(claimant),
            time.time(),
        ),
    )
