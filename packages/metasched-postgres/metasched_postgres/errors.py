"""PostgreSQL's errors as sentences about the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import psycopg

from metasched.database import DatabaseError

# The settings that libpq reads from a URL and that nobody else may.
_SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret"})


def shown(url: str) -> str:
    """A URL without its passwords, for messages and reports; it is taken apart as libpq does."""
    scheme, separator, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if "/" in user:  # of what comes later, an @ is no part of who it is
        user, at, place = "", "", rest
    place, mark, query = place.partition("?")
    settings = [setting for setting in query.split("&") if unquote(setting.partition("=")[0]) not in _SECRETS]
    return f"{scheme}{separator}{user.partition(':')[0]}{at}{place}{mark if any(settings) else ''}{'&'.join(settings)}"


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Raise DatabaseError for what goes wrong with the database at `url`, which is printed as it is."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise DatabaseError(f"`{url}` was opened to be read, and cannot be written") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseError(
            f"`{url}`: {_first_line(error)}\n  hint: ask who keeps it for the right to do this"
        ) from error
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise DatabaseError(f"`{url}` is locked by another process for too long: {_first_line(error)}") from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.InvalidSchemaName) as error:
        raise DatabaseError(f"`{url}` has no tables of metasched, or damaged ones: {_first_line(error)}") from error
    except (psycopg.DataError, OverflowError, UnicodeEncodeError) as error:
        raise DatabaseError(f"`{url}` cannot hold a value that it was given: {_first_line(error)}") from error
    except psycopg.OperationalError as error:
        raise DatabaseError(
            f"`{url}` cannot be reached: {_first_line(error)}\n"
            "  hint: is the server running, and are host, user and database right? What was recorded is kept"
        ) from error
    except psycopg.Error as error:
        raise DatabaseError(f"`{url}`: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
