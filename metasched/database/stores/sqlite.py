"""`sqlite:///PATH`: one SQLite file."""

from metasched.database.sqlite import open_sqlite

opener = open_sqlite
