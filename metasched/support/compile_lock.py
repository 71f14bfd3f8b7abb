"""The lock of what compiles with LLVM, and the locks that a fork waits for.

A forked child gets the state of LLVM and of Numba's compiler as it is, with whatever another thread was changing, and
locks that nobody is left to release: so a fork holds them all.

Importing this imports llvmlite: what compiles does, when it first has to.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack

from metasched.support.compiler_internals import llvm_lock, numba_lock
from metasched.support.forks import guards

COMPILE_LOCK = threading.RLock()


class _CompilerLocks:
    """The locks that a fork holds: a list for each, as a signal handler may fork while one is under way."""

    def __init__(self) -> None:
        self._held: list[ExitStack] = []

    def hold(self) -> None:
        """Take them in the order in which a thread of Numba's compiler does that compiles a kernel."""
        with ExitStack() as taken:
            for lock in (numba_lock(), COMPILE_LOCK, llvm_lock()):
                if lock is not None:
                    taken.enter_context(lock)
            self._held.append(taken.pop_all())

    def release(self) -> None:
        """What ends `hold`."""
        self._held.pop().close()


_locks = _CompilerLocks()
guards.add(_locks.hold, _locks.release)
