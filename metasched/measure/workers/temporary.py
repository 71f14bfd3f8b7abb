"""Temporary folders that go with the process that made them, or, when it was killed, with the next one that makes one.

A folder holds a file that its owner keeps locked (`flock`, which the kernel releases when the owner is gone, however
that came), so that a number that names another process by now says nothing wrong, nor one of another container.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from metasched.errors import ResourceError
from metasched.measure.workers.resources import explaining

PREFIX = "metasched-"
LOCK = "owner.lock"
_UNNAMED_FILE = "owner.new"
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class TemporaryFolder:
    """A new folder in the system's folder for temporary files; `close` removes it and all that is in it."""

    def __init__(self) -> None:
        """Raises ResourceError where no folder can be made."""
        with explaining("making a temporary folder"):
            try:
                self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            except FileNotFoundError as error:
                hint = "free some space, or set TMPDIR to a folder that exists and that you may write"
                raise ResourceError(f"there is no folder for temporary files: {error.strerror}", hint=hint) from error
            self._owner: int | None = os.getpid()
            try:
                self._lock = _lock_in(self.path)
            except BaseException:
                shutil.rmtree(self.path, ignore_errors=True)
                raise

    def close(self) -> None:
        """Remove it, unless this process is a fork of the one that made it. Once is enough; twice does no harm."""
        if os.getpid() == self._owner:
            self._owner = None
            if self._lock is not None:  # first: removing needs files, too
                os.close(self._lock)
            _remove(self.path)


def _lock_in(folder: Path) -> int | None:
    """Lock a file before it gets its name, so that no other process finds it unlocked.

    None where the file system knows no locks: only its owner removes the folder then.
    """
    file = os.open(folder / _UNNAMED_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / _UNNAMED_FILE).rename(folder / LOCK)
    except OSError as error:
        os.close(file)
        if error.errno in _NO_LOCKS:
            return None
        raise
    except BaseException:
        os.close(file)
        raise
    return file


def remove_abandoned(parent: Path | None = None) -> list[Path]:
    """Remove the temporary folders of this user whose owners are gone; gives those removed.

    A folder of another user, one without the lock's file, and one that somebody holds are left alone.
    """
    removed = []
    for folder in sorted((parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        file = _open_own(folder)
        if file is None:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its owner runs, or locks are not known here
            continue
        else:
            if os.fstat(file).st_nlink:  # else its owner has just removed it
                _remove(folder)
                removed.append(folder)
        finally:
            os.close(file)
    return removed


def _remove(folder: Path) -> None:
    """Remove a folder; one in which something was made meanwhile is abandoned, for the next one that looks."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.is_dir():
        (folder / LOCK).touch(0o600)


def _open_own(folder: Path) -> int | None:
    """The lock's file of a folder that this user made; None for anything else."""
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return None
        file = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # gone by now, or no folder of ours
        return None
    return file
