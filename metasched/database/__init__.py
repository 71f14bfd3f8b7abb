"""Tuning records: text only, in SQLite by default, by URL."""

from metasched.database.base import BACKENDS, Backends, Database, Missing, open_database
from metasched.database.record import DatabaseError, DatabaseStats, Record, TaskKey, TaskStats, code_version

__all__ = [
    "BACKENDS",
    "Backends",
    "Database",
    "DatabaseError",
    "DatabaseStats",
    "Missing",
    "Record",
    "TaskKey",
    "TaskStats",
    "code_version",
    "open_database",
]
