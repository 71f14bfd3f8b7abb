"""Databases by URL: which function opens those of a scheme."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import TypeAlias

from metasched.database.base import Access, Database
from metasched.database.record import DatabaseError
from metasched.database.shown_url import shown_url
from metasched.database.union import UnionDatabase
from metasched.errors import MetaschedError
from metasched.settings import DEFAULT_DATABASE, SQLITE
from metasched.support.messages import a_or_an
from metasched.support.registry import Registry, checked_function

LOGGER = logging.getLogger(__name__)

Opener = Callable[[str, Access], Database]
# A URL, or several: what is measured goes to the first, and the others are read.
DatabaseURLs: TypeAlias = str | Sequence[str]
DatabaseLike: TypeAlias = DatabaseURLs | Database
GROUP = "metasched.databases"


def _require_opener(value: object) -> Opener:
    """Raises UnfitError for what cannot be called with a URL and an `Access`."""
    return checked_function(value, "a URL and an Access", "a URL", "an Access")


# By URL scheme, the function that opens a database: ours and those of other packages, imported when one is named.
DATABASES: Registry[Opener] = Registry(
    GROUP, "database", _require_opener, DatabaseError, package="metasched.database.stores", attribute="opener"
)


# What to install for the schemes of known packages.
_PACKAGES: Mapping[str, str] = {"postgresql": "pip install metasched-postgres"}
_NOT_OURS = "tell those who make that package, or give another `db=`"


@contextmanager
def opened_database(db: DatabaseLike, access: Access = Access.CREATE) -> Iterator[Database]:
    """A database by its URL, or several, closed at the end; or one that is open already, and stays so.

    Raises what `open_database` does, and `DatabaseError` for what is neither.
    """
    if isinstance(db, Database):
        yield db
        return
    with open_database(db, access) as database:
        yield database


def open_database(url: DatabaseURLs, access: Access = Access.CREATE) -> Database:
    """Open the database at a URL such as `sqlite:///metasched.db` (`sqlite:////tmp/x.db` is an absolute path).

    Of several URLs the first is opened so, and the others are opened to be read (`metasched.database.union`).

    Raises `DatabaseError` for a URL of no known scheme, a file that is not such a database or was written by a
    newer metasched; `NoRecord`, unless it is to be created, for a file that is not there.
    """
    if isinstance(url, str):
        return _open_url(url, access)
    given: object = url
    if not isinstance(given, list | tuple):
        raise _no_text(given)
    if not url or not all(isinstance(one, str) for one in url):
        raise DatabaseError(
            f"`{given}` is no list of database URLs, one at least", hint="write one such as ['sqlite:///mine.db']"
        )
    if len(url) == 1:
        return _open_url(url[0], access)
    with ExitStack() as stack:
        own, *others = [stack.enter_context(_open_url(one, Access.READ if n else access)) for n, one in enumerate(url)]
        stack.pop_all()
        return UnionDatabase(own, others)


def _open_url(url: str, access: Access) -> Database:
    scheme = _scheme(url)
    if scheme in _PACKAGES and scheme not in DATABASES.names():
        raise DatabaseError(f"databases of `{scheme}://` are kept by another package", hint=_PACKAGES[scheme])
    LOGGER.debug("opening a database of %s to %s", scheme, access.value)  # the rest of a URL may hold a password
    opener, package = DATABASES.get(scheme), DATABASES.package_of(scheme)
    try:
        opened = opener(url, access)
    except MetaschedError:
        raise
    except Exception as error:
        raise DatabaseError(
            f"{shown_url(url)} was not opened: `{scheme}` of {package} raised {type(error).__name__}: {error}",
            hint=_NOT_OURS,
        ) from error
    if not isinstance(opened, Database):
        raise DatabaseError(
            f"{shown_url(url)} was not opened: `{scheme}` of {package} made {opened!r}, no database",
            hint=_NOT_OURS,
        )
    return opened


def shown_urls(url: DatabaseURLs) -> str:
    """A URL, or several, for a message."""
    return ", ".join(map(shown_url, [url] if isinstance(url, str) else url))


def scheme_of(url: str) -> str:
    """The scheme of a database URL. Raises `DatabaseError` for a text that is none, or of no known scheme."""
    scheme = _scheme(url)
    if scheme not in DATABASES.names():
        raise DatabaseError(f"there is no database `{scheme}` (in `{shown_url(url)}`)", hint=DATABASES.advice(scheme))
    return scheme


def _scheme(url: str) -> str:
    given: object = url
    if not isinstance(given, str):
        raise _no_text(given)
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise DatabaseError(f"`{url}` is not a database URL", hint=f"for a file, write `{SQLITE}{url}`")
    return scheme


def _no_text(given: object) -> DatabaseError:
    url = f"{SQLITE}{given}" if isinstance(given, PathLike) else DEFAULT_DATABASE
    return DatabaseError(
        f"`{given}` is {a_or_an(type(given).__name__)}, not the URL of a database", hint=f"write it as a text: '{url}'"
    )
