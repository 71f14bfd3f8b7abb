"""Where a user's own database of tuned kernels is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from metasched.cache_folder import CACHE, NoCacheFolder, cache_folder
from metasched.database.record import DatabaseError
from metasched.settings import SQLITE

_FILE = "kernels.db"


def kernels_database(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> str:
    """The URL of the user's own database of tuned kernels, in the user's folder (see `cache_folder`).

    Raises DatabaseError where nothing says which folder that is.
    """
    try:
        return f"{SQLITE}{cache_folder(environment, platform) / _FILE}"
    except NoCacheFolder as error:
        raise DatabaseError(str(error)) from error


def make_folder(url: str) -> None:
    """Make the folder that the user's database is in, unless it is there. Raises DatabaseError."""
    folder = Path(url.removeprefix(SQLITE)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"there can be no `{url}`: {error.filename}: {error.strerror}",
            hint=f"set {CACHE} to a folder that can be written, or give `db=`",
        ) from error
