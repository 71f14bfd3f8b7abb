"""Opening a database by its URL."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg

from metasched.database import Access, Database
from metasched.database.shown_url import shown_url
from metasched_postgres import schema
from metasched_postgres.database import Connection, PostgresDatabase
from metasched_postgres.errors import explain_errors

_CONNECT_S = 10
# A server that hangs, or a lock that nobody gives back, ends in an error and not in a wait for ever.
_OPTIONS = "-c lock_timeout=60s -c statement_timeout=300s -c idle_in_transaction_session_timeout=300s"
_READ_ONLY = "-c default_transaction_read_only=on"


def opener(url: str, access: Access) -> Database:
    """Open the database of a URL such as `postgresql://USER@HOST/DATABASE`, as libpq reads it.

    Its tables are in the schema `metasched`, and are made unless it is only opened to be read. Raises DatabaseError
    for a server that does not answer, and for tables of another version; NoRecord where there are none.
    """
    where = shown_url(url)
    connect = partial(_connect, url, access)
    with explain_errors(where):
        connection = connect()
        try:
            if access is Access.CREATE:
                schema.make_tables(where, connection)
            else:
                schema.require_tables(where, connection)
        except BaseException:
            connection.close()
            raise
    return PostgresDatabase(where, connection, connect)


def _connect(url: str, access: Access) -> psycopg.Connection[Any]:
    options = f"{_OPTIONS} {_READ_ONLY}" if access is Access.READ else _OPTIONS
    found: Connection = psycopg.connect(
        url, autocommit=True, connect_timeout=_CONNECT_S, options=options, application_name="metasched"
    )
    return found
