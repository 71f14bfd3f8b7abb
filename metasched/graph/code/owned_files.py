"""Files of a cache that are trusted: this user's, in a folder of this user's, which nobody else can write."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

LOGGER = logging.getLogger(__name__)

_OWNER_ONLY = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# A file that is not there, and a link, which is not followed, are what the caller expects.
_MISSING_ERRNOS = (errno.ENOENT, errno.ELOOP)
# Packages whose versions decide what code there is.
_PACKAGES = ("llvmlite", "numba", "numpy")


def code_key(*parts: str) -> str:
    """A key of what decides a task's code, in this version of everything that makes it."""
    return hashlib.sha256("\0".join((*parts, *_versions())).encode()).hexdigest()


@lru_cache(maxsize=1)
def _versions() -> tuple[str, ...]:
    """The versions of the packages, and of each file of this one, by its size and its time."""
    files = sorted(path for root in _sources() for path in _files_below(str(root)))
    said = [f"{path} {(found := os.stat(path)).st_size} {found.st_mtime_ns}" for path in files]  # noqa: PTH116
    return (*(f"{name} {version(name)}" for name in _PACKAGES), hashlib.sha256("\n".join(said).encode()).hexdigest())


def _files_below(folder: str) -> Iterator[str]:
    """The files of a folder and those below, but compiled ones; as texts, which take a tenth of the time of paths."""
    for above, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (path for name in names if os.path.isfile(path := os.path.join(above, name)))  # noqa: PTH113, PTH118


def _sources() -> list[Path]:
    """The folders of this package: its rules lie beside it where it is not installed."""
    rules = find_spec(f"{__name__.partition('.')[0]}.rules")
    return [Path(__file__).parents[2], *map(Path, (rules and rules.submodule_search_locations) or ())]


def safe_folder(folder: Path) -> Path:
    """The folder, made where it is not there. Raises OSError where others may write it, or it is not this user's."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{folder} is a link or a file, and not a folder")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    if found.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"others can write {folder}: chmod go-w {folder}")
    return folder


def read_own_file(path: Path) -> bytes | None:
    """The bytes of a plain file of this user's that nobody else can write; None without one. It counts as used now."""
    file = open_own_file(path)
    if file is None:
        return None
    with file:
        return file.read()


def open_own_file(path: Path) -> BinaryIO | None:
    """Open a plain file of this user's that nobody else can write; None without one. It counts as used now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _MISSING_ERRNOS:
            LOGGER.info("a file of the cache is not used: %s", error)
        return None
    file = os.fdopen(descriptor, "rb", buffering=0)
    found = os.fstat(descriptor)
    own = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE
    if not own or not stat.S_ISREG(found.st_mode):
        file.close()
        return None
    os.utime(descriptor)
    return file


def remove_oldest(folder: Path, most_bytes: int) -> None:
    """Remove what was used least recently, until the folder holds no more than this."""
    entries = list(_entries(folder))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries) if total > most_bytes else ():
        if total <= most_bytes:
            return
        Path(path).unlink(missing_ok=True)
        total -= size


def is_time_to_look(key: str) -> bool:
    """Whether a folder's size is looked at once something is kept under a key: one of 16, as it takes long of many."""
    return key.startswith("0")


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """When each file was used, its size, and its path; 3 microseconds a file."""
    with os.scandir(folder) as files:
        for file in files:
            try:
                found = file.stat(follow_symlinks=False)
            except FileNotFoundError:  # another process removed it
                continue
            yield found.st_mtime, found.st_size, file.path
