"""Reading an SQLite file without changing anything beside it, also where nothing can be written.

A file in WAL mode is read by way of two files beside it, `-wal` with what was committed last and `-shm`, an index of it
that every reader needs (https://sqlite.org/wal.html, "Read-Only Databases"). On a read-only disk SQLite cannot make
them, and says that it cannot open the file.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

# What SQLite says where it may not make the files that it needs beside a database.
_UNWRITABLE_CODES = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


def connect_to_read(file: Path, timeout_s: float) -> sqlite3.Connection:
    """A connection to an existing database, used only to read. Raises sqlite3.Error."""
    connection = _connect(file, "mode=rw", timeout_s)  # of a file that may only be read, SQLite makes that itself
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNWRITABLE_CODES:
            raise
        return _connect_beside_nothing(file, timeout_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_beside_nothing(file: Path, timeout_s: float) -> sqlite3.Connection:
    """For a folder where no file can be created, so that nobody is writing."""
    log = Path(f"{file}-wal")
    if not log.exists() or log.stat().st_size == 0:
        return _connect(file, "immutable=1", timeout_s)
    # What is only in the log would be missed. Copy both to a folder where SQLite can apply the log.
    with tempfile.TemporaryDirectory(prefix="metasched-") as folder:
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        shutil.copyfile(log, f"{copy}-wal")
        connection = _connect(copy, "mode=rw", timeout_s)
        try:
            return in_memory(connection)
        finally:
            connection.close()


def in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a database in memory, to be changed."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        connection.backup(copy)
    except BaseException:
        copy.close()
        raise
    return copy


def _connect(file: Path, how: str, timeout_s: float) -> sqlite3.Connection:
    uri = f"{file.absolute().as_uri()}?{how}"
    return sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False)


def text_of(data: bytes) -> str:
    """A text of a row. Bytes that are no text become surrogates, so that only this row fails."""
    return data.decode(errors="surrogateescape")
