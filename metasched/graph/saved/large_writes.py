"""Large files that are written by a thread while their maker goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

# A disk takes tens of milliseconds for so much: less is written at once.
_LARGE_BYTES = 32 << 20


class LargeWrites:
    """Writes in the order in which they are asked for, one at a time; a large one by a thread, for which Python waits
    before it ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def run(self, nbytes: int, write: Callable[[], None]) -> None:
        """Write so much, after what is being written; what is large is being written when this returns."""
        with self._lock:
            self._wait()
            if nbytes < _LARGE_BYTES:
                write()
                return
            self._thread = threading.Thread(target=write, name="metasched-write", daemon=False)
            self._thread.start()

    def wait(self) -> None:
        """Return when everything is written."""
        with self._lock:
            self._wait()

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
