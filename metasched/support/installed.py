"""The entry points of installed packages.

The standard library reads the files of every package whenever it is asked: tens of milliseconds where there are many.
Names are resolved more often than packages are installed, so what was read holds until a folder of the path changes.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, as `importlib.metadata.entry_points` gives them."""
    return _read_entry_points(group, _path_state())


@lru_cache(maxsize=64)
def _read_entry_points(group: str, _state: object) -> tuple[EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=group))


def _path_state() -> tuple[object, ...]:
    """What changes when a package is installed or removed: the folders of the path, and when each was changed."""
    finders = tuple(map(id, sys.meta_path))
    return (finders, *((folder, _change_time(folder)) for folder in sys.path))


def _change_time(folder: str) -> int | None:
    try:
        return os.stat(folder or os.curdir).st_mtime_ns  # noqa: PTH116 -- names are resolved often: a path takes as long again
    except OSError:  # it is not there, which is usual for folders of the path
        return None
