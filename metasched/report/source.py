"""Where the records of a search are: in a database that can be opened again, or kept here where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from metasched.database.base import Access, Database
from metasched.database.database_registry import open_database
from metasched.database.record import Record, SearchKey
from metasched.settings import IN_MEMORY, SQLITE
from metasched.support.data_classes import dataclass

# The URLs of files, by which they are opened again: other URLs are shown without their password.


@dataclass(frozen=True)
class RecordSource:
    """The records of a search: `kept`, where the database at `url` cannot be opened again."""

    url: str
    search: SearchKey
    kept: tuple[Record, ...] | None = field(default=None, repr=False)

    @staticmethod
    def of_search(database: Database, search: SearchKey) -> RecordSource:
        """The source of the records of a search in a database, which is closed afterwards."""
        opens_again = database.url.startswith(SQLITE) and database.url != IN_MEMORY
        kept = None if opens_again else tuple(_of_search(database, search))
        return RecordSource(database.url, search, kept)

    def records(self) -> Sequence[Record]:
        """The records, oldest first. Raises NoRecord where the database is no longer there."""
        if self.kept is not None:
            return self.kept
        with open_database(self.url, Access.READ) as database:
            return _of_search(database, self.search)


def _of_search(database: Database, search: SearchKey) -> list[Record]:
    return [record for record in database.records(search.task) if record.search == search]
