"""Tuning records: text only, in SQLite by default, by URL."""

from metasched.database.backends import BACKENDS, Backends, open_database
from metasched.database.base import Access, Database
from metasched.database.record import (
    DamagedRecordWarning,
    DatabaseError,
    DatabaseStats,
    Duplicate,
    Record,
    Role,
    TaskKey,
    TaskStats,
    Visit,
    VisitKind,
    code_version,
)

__all__ = [
    "Access",
    "BACKENDS",
    "Backends",
    "DamagedRecordWarning",
    "Database",
    "DatabaseError",
    "DatabaseStats",
    "Duplicate",
    "Record",
    "Role",
    "TaskKey",
    "TaskStats",
    "Visit",
    "VisitKind",
    "code_version",
    "open_database",
]
