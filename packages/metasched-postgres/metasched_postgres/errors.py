"""PostgreSQL's errors as sentences about the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from metasched.database import DatabaseError


@contextmanager
def explain_errors(url: str) -> Iterator[None]:
    """Raise DatabaseError for what goes wrong with the database at `url`, which is printed as it is."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise DatabaseError(f"`{url}` was opened to be read, and cannot be written") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseError(
            f"`{url}`: {_first_line(error)}", hint="ask who keeps it for the right to do this"
        ) from error
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise DatabaseError(f"`{url}` is locked by another process for too long: {_first_line(error)}") from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.InvalidSchemaName) as error:
        raise DatabaseError(f"`{url}` has no tables of metasched, or damaged ones: {_first_line(error)}") from error
    except (psycopg.DataError, OverflowError, UnicodeEncodeError) as error:
        raise DatabaseError(f"`{url}` cannot hold a value that it was given: {_first_line(error)}") from error
    except psycopg.OperationalError as error:
        raise DatabaseError(
            f"`{url}` cannot be reached: {_first_line(error)}",
            hint="is the server running, and are host, user and database right? What was recorded is kept",
        ) from error
    except psycopg.Error as error:
        raise DatabaseError(f"`{url}`: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
