"""Claims as rows: see `metasched.database.claims`. All are called in a transaction that holds the task's lock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple
from itertools import islice
from typing import Any

import psycopg

from metasched.database.claims import Claimant

Connection = psycopg.Connection[Any]
# A search of a task: the number of the task, the fingerprint of the space, and the version of the code.
Search = tuple[int, str, str]

_OF_SEARCH = "task = %s AND space = %s AND code_version = %s"
_OWN_CLAIM = "host = %s AND pid = %s AND started = %s"
# What a process claims by searching at all, where others claim codes.
_PRESENCE = ""


def join(connection: Connection, search: Search, claimant: Claimant) -> None:
    """Register a process as working on a search."""
    _drop_void(connection, search)
    connection.execute(
        f"DELETE FROM metasched.claims WHERE {_OF_SEARCH} AND code = %s AND {_OWN_CLAIM}",
        (*search, _PRESENCE, *astuple(claimant)),
    )
    _add(connection, search, _PRESENCE, claimant)


def leave(connection: Connection, search: Search, claimant: Claimant) -> None:
    """Give up whatever a process claimed of a search."""
    connection.execute(
        f"DELETE FROM metasched.claims WHERE {_OF_SEARCH} AND {_OWN_CLAIM}", (*search, *astuple(claimant))
    )


def release(connection: Connection, search: Search, claimant: Claimant) -> None:
    """Give up a process's claims on codes."""
    connection.execute(
        f"DELETE FROM metasched.claims WHERE {_OF_SEARCH} AND code != %s AND {_OWN_CLAIM}",
        (*search, _PRESENCE, *astuple(claimant)),
    )


def claim(connection: Connection, search: Search, codes: Sequence[str], limit: int, claimant: Claimant) -> list[str]:
    """Claim the first `limit` of the codes that have no record and that no other process has claimed."""
    _drop_void(connection, search)
    held = {code for code, holder, _ in _all_claims(connection, search) if holder != claimant}
    rows = connection.execute(
        f"SELECT DISTINCT code FROM metasched.records WHERE {_OF_SEARCH} AND md5(code) IN "
        "(SELECT md5(c) FROM unnest(%s::text[]) AS c)",
        (*search, list(codes)),
    ).fetchall()
    recorded = {code for (code,) in rows}
    taken = list(islice((code for code in codes if code not in held and code not in recorded), max(0, limit)))
    for code in taken:
        _add(connection, search, code, claimant)
    return taken


def count_others(connection: Connection, search: Search, claimant: Claimant) -> int:
    """The number of other processes at a search."""
    return sum(code == _PRESENCE for code in _held_by_others(connection, search, claimant))


def under_way(connection: Connection, search: Search, claimant: Claimant) -> int:
    """How many codes other processes have claimed."""
    return sum(code != _PRESENCE for code in _held_by_others(connection, search, claimant))


def _held_by_others(connection: Connection, search: Search, claimant: Claimant) -> list[str]:
    claims = _all_claims(connection, search)
    return [code for code, holder, since in claims if holder != claimant and not holder.is_gone(since)]


def _all_claims(connection: Connection, search: Search) -> list[tuple[str, Claimant, float]]:
    """Every claim of a search: the code, who holds it, and since when."""
    rows = connection.execute(
        f"SELECT code, claimed, host, pid, started FROM metasched.claims WHERE {_OF_SEARCH} ORDER BY ctid", search
    )
    return [(code, Claimant(*holder), claimed) for code, claimed, *holder in rows.fetchall()]


def _drop_void(connection: Connection, search: Search) -> None:
    for _, holder, since in _all_claims(connection, search):
        if holder.is_gone(since):
            connection.execute(
                f"DELETE FROM metasched.claims WHERE {_OF_SEARCH} AND {_OWN_CLAIM} AND claimed = %s",
                (*search, *astuple(holder), since),
            )


def _add(connection: Connection, search: Search, code: str, claimant: Claimant) -> None:
    connection.execute(
        "INSERT INTO metasched.claims (task, space, code_version, code, host, pid, started, claimed) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (*search, code, *astuple(claimant), time.time()),
    )
