"""What a fork of this process waits for: work of other threads that the child could neither use nor finish."""

from __future__ import annotations

# Python calls functions registered for before a fork in reverse order. These two modules hold locks of their own, which
# the work that a guard waits for may need: they are registered first, so that their locks are taken last.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
from collections.abc import Callable


def do_nothing() -> None:
    """Do nothing: the release of a guard that holds nothing."""


class ForkGuards:
    """Locks that a forking thread holds while it forks, and releases in the parent and in the child.

    A guard that is added while a fork waits for an earlier one is held too; only guards that were held are released.
    """

    def __init__(self) -> None:
        self._guards: list[tuple[Callable[[], object], Callable[[], object]]] = []
        self._held: tuple[Callable[[], object], ...] = ()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._release)

    def add(self, hold: Callable[[], object], release: Callable[[], object] = do_nothing) -> None:
        """Have `hold` called before every fork, and `release` after it; in the order of adding, and in reverse."""
        self._guards.append((hold, release))

    def _hold(self) -> None:
        held = []
        for hold, release in self._guards:
            hold()
            held.append(release)
        self._held = tuple(held)

    def _release(self) -> None:
        held, self._held = self._held, ()
        for release in reversed(held):
            release()


# One for the process, because forks are of the process.
guards = ForkGuards()
