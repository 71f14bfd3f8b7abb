"""Machine code of tasks on disk: a file each, in a folder of the user's cache that only its owner can write.

What is read is run, so a file counts only where this user owns it and the folder, nobody else can write either, and
its hash is right. Anything else is as if it were not there, and is written anew.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from metasched.cache_folder import CACHE, NoCacheFolder, cache_folder
from metasched.errors import CacheWarning, callers_level
from metasched.graph.code_archive import from_bytes, to_bytes
from metasched.graph.task_code import TaskCode

_FOLDER = "kernels"
_SUFFIX = ".kernel"
_HASH_BYTES = hashlib.sha256().digest_size
_OWNER_ONLY = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# The most that the folder holds; what was used least recently goes first.
_MOST_BYTES = 1 << 30
# Packages whose versions decide what code there is.
_PACKAGES = ("llvmlite", "numba", "numpy")


@dataclass(frozen=True)
class CodeCache:
    """Machine code by what decides it. `folder` is None where there is none that can be trusted."""

    folder: Path | None

    @classmethod
    def open(cls) -> CodeCache:
        """The user's. A folder that others can write is not used, with a CacheWarning."""
        try:
            return cls(_safe_folder(cache_folder() / _FOLDER))
        except (NoCacheFolder, OSError) as error:
            warnings.warn(
                f"machine code of networks is not kept: {error}\n  hint: set {CACHE} to a folder of yours that nobody "
                "else can write",
                CacheWarning,
                stacklevel=callers_level(),
            )
            return cls(None)

    def get(self, key: str) -> TaskCode | None:
        """The code of a key; None where there is none, or what is there is damaged or not this user's own."""
        if self.folder is None:
            return None
        data = _own_file(self.folder / (key + _SUFFIX))
        if data is None or hashlib.sha256(data[_HASH_BYTES:]).digest() != data[:_HASH_BYTES]:
            return None
        try:
            return from_bytes(data[_HASH_BYTES:])
        except ValueError:  # of another version of this package, under a key that should not be
            return None

    def put(self, key: str, code: TaskCode) -> None:
        """Keep the code of a key, whole or not at all. Where the disk is full, it is not kept."""
        if self.folder is None:
            return
        payload = to_bytes(code)
        try:
            descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=key[:8])
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(name).replace(self.folder / (key + _SUFFIX))
        except OSError as error:
            warnings.warn(f"machine code is not kept: {error}", CacheWarning, stacklevel=callers_level())

    def remove_oldest(self, most_bytes: int = _MOST_BYTES) -> None:
        """Remove what was used least recently, until the folder holds no more than this."""
        if self.folder is None:
            return
        files = sorted(_entries(self.folder), reverse=True)
        total = 0
        for _, size, path in files:
            total += size
            if total > most_bytes:
                path.unlink(missing_ok=True)


def code_key(*parts: str) -> str:
    """A key of what decides a task's code, in this version of everything that makes it."""
    return hashlib.sha256("\0".join((*parts, *_versions())).encode()).hexdigest()


@lru_cache(maxsize=1)
def _versions() -> tuple[str, ...]:
    """The versions of the packages, and of each file of this one, by its size and its time."""
    files = sorted(path for root in _sources() for path in root.rglob("*") if "__pycache__" not in path.parts)
    said = [f"{path} {(found := path.stat()).st_size} {found.st_mtime_ns}" for path in files if path.is_file()]
    return (*(f"{name} {version(name)}" for name in _PACKAGES), hashlib.sha256("\n".join(said).encode()).hexdigest())


def _sources() -> list[Path]:
    """The folders of this package: its rules lie beside it where it is not installed."""
    rules = find_spec(f"{__name__.partition('.')[0]}.rules")
    return [Path(__file__).parents[1], *map(Path, (rules and rules.submodule_search_locations) or ())]


def _safe_folder(folder: Path) -> Path:
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


def _own_file(path: Path) -> bytes | None:
    """The bytes of a plain file of this user's that nobody else can write; None without one. It counts as used now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        own = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE
        if not own or not stat.S_ISREG(found.st_mode):
            return None
        os.utime(descriptor)
        return file.read()


def _entries(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each file was used, its size, and its path."""
    for path in folder.iterdir():
        try:
            found = path.lstat()
        except FileNotFoundError:  # another process removed it
            continue
        yield found.st_mtime, found.st_size, path
