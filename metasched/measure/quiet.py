"""Nothing else runs while a candidate is timed: work and timing take turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TimingTurns:
    """Any number of threads work at once, or one of them times. Waiting to time has priority over new work."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0
        self._timers = 0
        self._timing = False

    @property
    def is_wanted(self) -> bool:
        """Whether a thread times, or waits to."""
        with self._changed:
            return self._timers > 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """While its body runs, nothing is timed; it waits for what is being timed."""
        with self._changed:
            self._changed.wait_for(lambda: self._timers == 0)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """While its body runs, no other work or timing does: it waits for work that is under way, and lets none
        begin."""
        with self._changed:
            self._timers += 1
            self._changed.wait_for(lambda: self._working == 0 and not self._timing)
            self._timing = True
        try:
            yield
        finally:
            with self._changed:
                self._timing = False
                self._timers -= 1
                self._changed.notify_all()
