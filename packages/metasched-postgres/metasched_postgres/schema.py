"""The tables, in a schema of their own, and their version."""

from __future__ import annotations

from typing import Any

import psycopg

from metasched.database import DatabaseError
from metasched.errors import NoRecord

VERSION = 1
# Held while the tables are made, so that two processes do not.
_LOCK_KEY = 0x6D736368

_RECORDS = """
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL REFERENCES metasched.tasks (id),
    program text NOT NULL,
    params text NOT NULL,
    trace text NOT NULL,
    visits text NOT NULL,
    failure text,
    raced integer NOT NULL,
    phases text NOT NULL,
    timestamp double precision NOT NULL,
    seed bigint NOT NULL,
    trial bigint NOT NULL,
    batch bigint NOT NULL,
    place bigint NOT NULL,
    code text NOT NULL,
    role text NOT NULL,
    space text NOT NULL,
    code_version text NOT NULL,
    prologue_seconds double precision,
    expected_seconds double precision,
    seconds double precision,
    search_seconds double precision,
    settled integer NOT NULL,
    turns integer NOT NULL,
    repeats integer NOT NULL,
    structure text NOT NULL,
    decisions text NOT NULL,
    written bigint NOT NULL,
    permissions text NOT NULL
"""
_SEARCH = "task bigint NOT NULL REFERENCES metasched.tasks (id), space text NOT NULL, code_version text NOT NULL"
# A task is found by the digest of its key: a target's text is longer than an index takes.
_TABLES = (
    "CREATE SCHEMA IF NOT EXISTS metasched",
    "CREATE TABLE metasched.version (number integer NOT NULL)",
    """CREATE TABLE metasched.tasks (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        digest text NOT NULL UNIQUE,
        program_hash text NOT NULL,
        target text NOT NULL,
        threads integer NOT NULL,
        surroundings text NOT NULL
    )""",
    f"CREATE TABLE metasched.records ({_RECORDS})",
    "CREATE INDEX records_of_task ON metasched.records (task, id)",
    "CREATE INDEX records_by_code ON metasched.records (task, md5(code))",
    "CREATE INDEX records_by_time ON metasched.records (task, seconds)",
    f"""CREATE TABLE metasched.duplicates (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_SEARCH},
        trace text NOT NULL, code text NOT NULL, batch bigint NOT NULL, place bigint NOT NULL
    )""",
    "CREATE INDEX duplicates_of_task ON metasched.duplicates (task)",
    f"""CREATE TABLE metasched.claims (
        {_SEARCH}, code text NOT NULL,
        host text NOT NULL, pid bigint NOT NULL, started double precision NOT NULL, claimed double precision NOT NULL
    )""",
    "CREATE INDEX claims_of_task ON metasched.claims (task)",
)


def make_tables(url: str, connection: psycopg.Connection[Any]) -> None:
    """Make the tables unless they are there. Raises DatabaseError for those of a newer metasched."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        if found_version(url, connection) is None:
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("INSERT INTO metasched.version VALUES (%s)", (VERSION,))


def require_tables(url: str, connection: psycopg.Connection[Any]) -> None:
    """Raise NoRecord where there are no tables, DatabaseError for those of a newer metasched."""
    if found_version(url, connection) is None:
        raise NoRecord(f"there are no tables of metasched at `{url}`", hint="`metasched tune` makes them")


def found_version(url: str, connection: psycopg.Connection[Any]) -> int | None:
    """The version of the tables; None where there are none. Raises DatabaseError for one that is not known."""
    row = connection.execute("SELECT to_regclass('metasched.version') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return None
    number = connection.execute("SELECT number FROM metasched.version").fetchone()
    if number is None or number[0] != VERSION:
        found = "none" if number is None else number[0]
        raise DatabaseError(
            f"`{url}` has tables of version {found}, and this metasched-postgres knows {VERSION}",
            hint="upgrade it, or give another `db=`",
        )
    return VERSION
