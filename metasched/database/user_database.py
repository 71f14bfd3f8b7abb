"""Where a user's own database of tuned kernels is."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from metasched.database.record import DatabaseError

CACHE = "METASCHED_CACHE"
_FILE = "kernels.db"
_PREFIX = "sqlite:///"


def kernels_database(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> str:
    """The URL of the user's own database of tuned kernels.

    METASCHED_CACHE names its folder; else it is the platform's: $XDG_CACHE_HOME/metasched, or ~/.cache/metasched
    (XDG Base Directory Specification, which ignores a path that is not absolute); ~/Library/Caches/metasched on
    macOS; %LOCALAPPDATA%\\metasched on Windows.

    Raises DatabaseError where nothing says which folder that is.
    """
    env = os.environ if environment is None else environment
    given = env.get(CACHE)
    return f"{_PREFIX}{(Path(given).absolute() if given else _cache_folder(env, platform)) / _FILE}"


def make_folder(url: str) -> None:
    """Make the folder that the user's database is in, unless it is there. Raises DatabaseError."""
    folder = Path(url.removeprefix(_PREFIX)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"there can be no `{url}`: {error.filename}: {error.strerror}. "
            f"Hint: set {CACHE} to a folder that can be written, or give `db=`"
        ) from error


def _cache_folder(env: Mapping[str, str], platform: str) -> Path:
    if platform == "win32" and env.get("LOCALAPPDATA"):
        return Path(env["LOCALAPPDATA"]) / "metasched"
    xdg = Path(env.get("XDG_CACHE_HOME", ""))
    if platform not in {"win32", "darwin"} and xdg.is_absolute():
        return xdg / "metasched"
    home = _home(env)
    if platform == "win32":
        return home / "AppData" / "Local" / "metasched"
    return (home / "Library" / "Caches" if platform == "darwin" else home / ".cache") / "metasched"


def _home(env: Mapping[str, str]) -> Path:
    """$HOME, else what the system's list of users says."""
    if env.get("HOME"):
        return Path(env["HOME"])
    # With the variable empty, Python would take the root of the file system.
    user = "~" if "HOME" not in os.environ else f"~{getpass.getuser()}"
    try:
        return Path(user).expanduser()
    except (RuntimeError, KeyError, OSError) as error:
        raise DatabaseError(
            f"nothing says which folder is this user's. Hint: set HOME, or {CACHE} to a folder for tuned kernels"
        ) from error
