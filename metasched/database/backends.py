"""Databases by URL: which function opens those of a scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

from metasched.database.base import Access, Database
from metasched.database.record import DatabaseError

Opener = Callable[[str, Access], Database]


class Backends(Mapping[str, str]):
    """URL schemes and the function that opens each, as `module:function`, imported when first used."""

    def __init__(self, openers: Mapping[str, str]) -> None:
        self._openers = dict(openers)

    def __getitem__(self, scheme: str) -> str:
        return self._openers[scheme]

    def __iter__(self) -> Iterator[str]:
        return iter(self._openers)

    def __len__(self) -> int:
        return len(self._openers)

    def opener(self, scheme: str) -> Opener:
        module, _, function = self._openers[scheme].partition(":")
        opener: Opener = getattr(import_module(module), function)
        return opener


BACKENDS = Backends({"sqlite": "metasched.database.sqlite:open_sqlite"})


def open_database(url: str, access: Access = Access.CREATE, backends: Backends = BACKENDS) -> Database:
    """Open the database at a URL such as `sqlite:///metasched.db` (`sqlite:////tmp/x.db` is an absolute path).

    Raises `DatabaseError` for a URL of no known scheme, a file that is not such a database or was written by a
    newer metasched; `NoRecord`, unless it is to be created, for a file that is not there.
    """
    return backends.opener(scheme_of(url, backends))(url, access)


def scheme_of(url: str, backends: Backends = BACKENDS) -> str:
    """The scheme of a database URL. Raises `DatabaseError` for a text that is none, or of no known scheme."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise DatabaseError(f"`{url}` is not a database URL. Hint: for a file, write `sqlite:///{url}`")
    if scheme not in backends:
        known = ", ".join(f"`{name}://`" for name in sorted(backends))
        raise DatabaseError(f"no database backend for `{scheme}://` (in `{url}`). Known: {known}")
    return scheme
