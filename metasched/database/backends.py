"""Databases by URL: which function opens those of a scheme."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import signature

from metasched.database.base import Access, Database
from metasched.database.record import DatabaseError
from metasched.support.registry import Registry, UnfitError

LOGGER = logging.getLogger(__name__)

Opener = Callable[[str, Access], Database]
GROUP = "metasched.databases"


def _checked(value: object) -> Opener:
    """Raises UnfitError for what cannot be called with a URL and an `Access`."""
    if not callable(value):
        raise UnfitError(f"it is a {type(value).__name__}, and no function of a URL and an Access")
    try:
        signature(value).bind("", Access.READ)
    except TypeError:
        raise UnfitError("it does not take two arguments, a URL and an Access") from None
    return value


# By URL scheme, the function that opens a database: ours and those of other packages, imported when one is named.
DATABASES: Registry[Opener] = Registry(
    GROUP, "database", _checked, DatabaseError, package="metasched.database.stores", attribute="opener"
)


def open_database(url: str, access: Access = Access.CREATE, databases: Registry[Opener] = DATABASES) -> Database:
    """Open the database at a URL such as `sqlite:///metasched.db` (`sqlite:////tmp/x.db` is an absolute path).

    Raises `DatabaseError` for a URL of no known scheme, a file that is not such a database or was written by a
    newer metasched; `NoRecord`, unless it is to be created, for a file that is not there.
    """
    scheme = _scheme(url)
    LOGGER.debug("opening a database of %s to %s", scheme, access.value)  # the rest of a URL may hold a password
    return databases.get(scheme)(url, access)


def scheme_of(url: str, databases: Registry[Opener] = DATABASES) -> str:
    """The scheme of a database URL. Raises `DatabaseError` for a text that is none, or of no known scheme."""
    scheme = _scheme(url)
    if scheme not in databases.names():
        raise DatabaseError(f"there is no database `{scheme}` (in `{url}`){databases.advice(scheme)}")
    return scheme


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise DatabaseError(f"`{url}` is not a database URL. Hint: for a file, write `sqlite:///{url}`")
    return scheme
