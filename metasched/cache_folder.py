"""The folder that is this user's for what can be made again: tuned kernels, and what the machine has measured."""

from __future__ import annotations

import getpass
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from metasched.errors import CacheWarning, MetaschedError, callers_level
from metasched.settings import CACHE as _CACHE
from metasched.support.messages import with_hint

CACHE = _CACHE.name


class NoCacheFolder(MetaschedError):
    """Nothing says which folder is this user's; the message says what to set."""


def cache_folder(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The folder, which may not be there yet.

    METASCHED_CACHE names it; else it is the platform's: $XDG_CACHE_HOME/metasched, or ~/.cache/metasched (XDG Base
    Directory Specification, which ignores a path that is not absolute); ~/Library/Caches/metasched on macOS;
    %LOCALAPPDATA%\\metasched on Windows.

    Raises NoCacheFolder where nothing says which it is.
    """
    env = os.environ if environment is None else environment
    given = env.get(CACHE)
    return Path(given).absolute() if given else _of_the_platform(env, platform)


def warn_not_kept(what: str, error: Exception) -> None:
    """Say that something is not kept in the folder, as that cannot be used or the disk refuses it: a CacheWarning.

    It costs the time to make it again. `what` is a subject with its verb, such as "a compiled network is".
    """
    warnings.warn(
        with_hint(
            f"{what} not kept: {error}",
            f"set {CACHE} to a folder of yours that nobody else can write, on a disk with room",
        ),
        CacheWarning,
        stacklevel=callers_level(),
    )


def _of_the_platform(env: Mapping[str, str], platform: str) -> Path:
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
        raise NoCacheFolder(
            "nothing says which folder is this user's", hint=f"set HOME, or {CACHE} to a folder for tuned kernels"
        ) from error
