"""What the system lacks or denies: its errors as sentences with a remedy, and how many it ended for want of memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from metasched.errors import ResourceError

_COUNTERS = Path("/proc/vmstat")
_FREE_SPACE = "free some, or set TMPDIR to a folder that has room"
_FILES_HINT = "raise the limit (`ulimit -n 1024`), or close files"

# What to do, by the number of the error; what went wrong is the system's own text.
REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f unlimited`)",
    errno.EMFILE: _FILES_HINT,
    errno.ENFILE: _FILES_HINT,
    errno.EAGAIN: "raise the limit on processes and threads (`ulimit -u`), or end some",
    errno.ENOMEM: "raise the limit on memory (`ulimit -v`), or end what holds it",
    errno.EACCES: "give yourself the right, or set TMPDIR to a folder of yours",
    errno.EPERM: "give yourself the right, or set TMPDIR to a folder of yours",
    errno.EIO: "see whether the disk, or the device that the file stands for, is sound",
    errno.EROFS: "set TMPDIR to a folder that can be written",
}


def as_resource_error(error: BaseException, doing: str) -> ResourceError | None:
    """The sentence for an error about a lacking resource; None for any other error.

    `doing` is what could not be done, as in "writing a candidate's data".
    """
    if isinstance(error, MemoryError):
        return _sentence(doing, os.strerror(errno.ENOMEM), errno.ENOMEM)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return _sentence(doing, "no thread can be started", errno.EAGAIN)
    if isinstance(error, OSError) and error.errno is not None and error.errno in REMEDIES:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _sentence(doing, where + os.strerror(error.errno), error.errno)
    return None


def _sentence(doing: str, what: str, number: int) -> ResourceError:
    return ResourceError(f"{doing} failed: {what}", hint=REMEDIES[number])


@contextmanager
def explaining(doing: str) -> Iterator[None]:
    """Raises `ResourceError` instead of an error that means that something has run out; others pass."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        lack = as_resource_error(error, doing)
        if lack is None:
            raise
        raise lack from error


def count_memory_kills() -> int | None:
    """How many processes the system has ended for want of memory since it began; None where it does not say."""
    try:
        counters = dict(line.split() for line in _COUNTERS.read_text().splitlines())
    except FileNotFoundError:
        return None
    return int(counters["oom_kill"]) if "oom_kill" in counters else None
