"""What tests leave running: threads of Python and processes, which disturb the tests after them.

A module's fixtures may keep some for all its tests, so what is left is asked after the last of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

# What is about to end is waited for: a thread that was told to, a process that was killed.
PATIENCE_S = 5.0

# A thread that Dask keeps for all clients of a process. It waits in a queue for what to call.
_OF_DASK = "Dask-Callback-Thread"
# What Python starts once a process, at the first use of shared memory, semaphores or a server of forks.
_OF_PYTHON = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


class Leftovers:
    """`look` after each test says who began what; `found` is what was not there at first and has not ended."""

    def __init__(self, processes: Callable[[], set[int]] | None = None) -> None:
        self._processes = processes or children
        self._begun: dict[threading.Thread | int, str] = {}
        self.look("what was there before the tests")
        self._allowed = set(self._begun)

    def look(self, test: str) -> None:
        """Note that what is new began in this test."""
        alive = self._alive()
        self._begun = {one: self._begun.get(one, test) for one in alive}

    def found(self) -> list[str]:
        """A line for each thread and process that stays, which is not told again."""
        end = time.monotonic() + PATIENCE_S
        while (left := self._alive() - self._allowed) and time.monotonic() < end:
            time.sleep(0.01)
        self._allowed |= left
        return sorted(f"{_name(one)}, which began in {self._begun.get(one, 'the end of a module')}" for one in left)

    def _alive(self) -> set[threading.Thread | int]:
        threads = (thread for thread in threading.enumerate() if not thread.name.startswith(_OF_DASK))
        return {*threads, *self._processes()}


def children() -> set[int]:
    """The processes that this one started and that run."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        try:
            found.update(map(int, file.read_text().split()))
        except OSError:  # the thread has ended meanwhile
            continue
    return {pid for pid in found if _runs(pid)}


def _runs(pid: int) -> bool:
    """Whether it is there, has not ended, and is not one of Python's own."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and not any(name in _command(pid) for name in _OF_PYTHON)
    except OSError:
        return False


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def _name(one: threading.Thread | int) -> str:
    if isinstance(one, threading.Thread):
        return f"the thread {one.name}"
    try:
        return f"the process {one} ({_command(one)[:120]})"
    except OSError:
        return f"the process {one}"
