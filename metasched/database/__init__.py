"""Tuning records: text only, in SQLite by default, by URL.

Its files, in reading order:

- `claims`: Who measures what: processes that tune one task at once claim code before they build it
- `record`: What a tuning record holds: text and numbers only, read back as data and never executed
- `summary`: What a search needs of a record, without its program, its trace and its samples: a hundred thousand fit in
  memory
- `base`: The interface of a record store, and how a URL chooses one
- `best`: Which record of a task is the best: what `tune` returns and every later process takes
- `check`: Whether a record of unknown origin says what it claims: texts that parse and belong together, numbers that
  can be
- `visits_json`: Visits as JSON, as databases and exported files hold them
- `rows`: Records as rows of a table, for stores of SQL
- `sqlite_tasks`: Tasks as rows of an SQLite file, and what belongs to a search of one
- `sqlite_claims`: Claims as rows of an SQLite file: see `metasched.database.claims`
- `sqlite_errors`: SQLite's errors, and those of Python over what a damaged file gives, as sentences about the database
- `sqlite_reading`: Reading an SQLite file without changing anything beside it, also where nothing can be written
- `sqlite_schema`: The tables of a database file, version by version, and how a file of an older version becomes one of
  the newest
- `sqlite`: Records in one SQLite file, in WAL mode: readers never wait, and a killed writer loses nothing it committed
- `union`: Several databases as one: what is measured goes to the first, and the others are read
- `shown_url`: A database's URL as messages print it
- `database_registry`: Databases by URL: which function opens those of a scheme
- `stores/`: Where records can be kept: a file a URL scheme, of its name
- `transfer`: Records as lines of text, to be kept in git, sent to somebody, and merged; and which of them a clean-up
  removes
- `user_database`: Where a user's own database of tuned kernels is
"""

from metasched.database.base import Access, BaseDatabase, Database
from metasched.database.database_registry import DATABASES, DatabaseLike, open_database
from metasched.database.record import (
    DamagedRecordWarning,
    DatabaseError,
    DatabaseStats,
    Duplicate,
    Record,
    Role,
    SearchKey,
    TaskKey,
    TaskStats,
    Visit,
    VisitKind,
    code_version,
)
from metasched.database.summary import Summary

__all__ = [
    "Access",
    "BaseDatabase",
    "DATABASES",
    "DamagedRecordWarning",
    "Database",
    "DatabaseError",
    "DatabaseLike",
    "DatabaseStats",
    "Duplicate",
    "Record",
    "Role",
    "SearchKey",
    "Summary",
    "TaskKey",
    "TaskStats",
    "Visit",
    "VisitKind",
    "code_version",
    "open_database",
]
