"""A database, `toy:///FOLDER`: a SQLite file of a fixed name in a folder."""

from __future__ import annotations

from metasched.database.base import Access, Database
from metasched.database.sqlite import open_sqlite


def opener(url: str, access: Access) -> Database:
    """Open `toy:///FOLDER`."""
    return open_sqlite(f"sqlite:///{url.removeprefix('toy:///')}/toy.db", access)
