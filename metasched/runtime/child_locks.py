"""Locks of calls, which are free in a forked child: the thread that held one in the parent is not there to release it.

The source of this file is part of every exported network.
"""

from __future__ import annotations

import os
import threading
import weakref

_LOCKS: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def lock_of_calls() -> threading.Lock:
    """A new lock, which a forked child finds free; what it guards may be in the midst of a call of the parent's."""
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


def _release_all() -> None:
    for lock in _LOCKS:
        if lock.locked():
            lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)
