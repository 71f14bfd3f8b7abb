"""SQLite's errors, and those of Python over what a damaged file gives, as sentences about the database."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from metasched.database.record import DatabaseError

# By SQLite's primary result code (sqlite.org/rescode.html).
_HINTS: Mapping[int, str] = {
    sqlite3.SQLITE_FULL: "free some space, or give a `db=` on another disk",
    sqlite3.SQLITE_READONLY: "give yourself the right to write the file and its folder, or give another `db=`",
    sqlite3.SQLITE_CANTOPEN: "see whether its folder is still there, and whether you may read and write in it",
    sqlite3.SQLITE_IOERR: "see whether the disk is full, and whether files may be as large (`ulimit -f`)",
}
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_RECOVERY_HINT = "move the file away; `sqlite3 FILE .recover` may save what it held"


@contextmanager
def explain_errors(url: str, waited_s: float) -> Iterator[None]:
    """Raises `DatabaseError` for what goes wrong with the database at `url`.

    `waited_s` is how long a lock was waited for.
    """
    try:
        yield
    except sqlite3.ProgrammingError as error:  # a closed connection
        raise DatabaseError(f"`{url}`: {error}") from error
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _explain_error(url, error, waited_s) from error
    except MemoryError as error:  # a length that was overwritten is asked for
        raise _unsound(url, "a part of it would not fit the memory") from error
    except OSError as error:
        why = error.strerror or error
        hint = "raise the limit on open files (`ulimit -n`)" if error.errno == errno.EMFILE else ""
        raise DatabaseError(f"`{url}` cannot be reached: {why}", hint=hint) from error
    except UnicodeDecodeError as error:  # in SQLite's own messages
        raise _unsound(url, "names in it are no text") from error
    except (OverflowError, UnicodeEncodeError) as error:  # values that SQLite cannot hold
        raise DatabaseError(f"`{url}` cannot hold a value that it was given: {error}") from error


def is_busy(error: Exception) -> bool:
    """Whether SQLite gave up waiting for another connection."""
    return _primary_code(error) in _BUSY_CODES


def _primary_code(error: Exception) -> int:
    # Errors that Python's module raises itself, over a text that is not UTF-8 say, have no code.
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _explain_error(url: str, error: Exception, waited_s: float) -> DatabaseError:
    primary = _primary_code(error)
    if is_busy(error):
        return DatabaseError(
            f"`{url}` is locked by another process (waited {waited_s:g} s)",
            hint="end that process, or give each run its own `db=`",
        )
    if primary in _HINTS:
        return DatabaseError(f"`{url}`: {error}", hint=_HINTS[primary])
    if primary in _DAMAGE_CODES or not isinstance(error, sqlite3.OperationalError):
        return _unsound(url, str(error))
    return DatabaseError(f"`{url}`: {error}")


def _unsound(url: str, why: str) -> DatabaseError:
    return DatabaseError(f"`{url}` is not a sound SQLite database: {why}", hint=_RECOVERY_HINT)
