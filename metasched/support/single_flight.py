"""Work that several callers may want at once, done once: the first caller has it done, and the others wait for it.

It is done in a thread of its own, so that no caller holds a lock while it lasts, and Python code of ours is never
interrupted by a signal handler that runs it again. A handler that wants the result that the interrupted code waits for
waits too. A child that was forked meanwhile has no such thread, and does the work again.

(The name is that of Go's golang.org/x/sync/singleflight.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")

# How often a caller that waits looks whether it has become a forked child, whose thread will never come.
_LOOK_S = 0.2


class SingleFlight(Generic[T]):
    """Runs the work for a key at most once at a time. Results are not remembered: that is what the work does."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}

    def run(self, key: Hashable, work: Callable[[], T]) -> T:
        """What `work` returns, or raises, in whichever caller's form it is being done for this key."""
        while True:
            # One step of the interpreter, so neither a thread nor a signal handler comes in between.
            flight = self._flights.setdefault(key, _Flight(work, lambda: self._flights.pop(key, None)))
            if flight.process == os.getpid() and flight.wait():
                return flight.result()
            self._flights.pop(key, None)


class _Flight(Generic[T]):
    def __init__(self, work: Callable[[], T], landed: Callable[[], object]) -> None:
        self.process = os.getpid()
        self._work = work
        self._landed = landed
        self._turn = iter((True,))
        # Its condition has a lock that the same thread may take again, which `threading.Event` has not.
        self._future: Future[T] = Future()

    def wait(self) -> bool:
        """Wait for the end; False in a child that was forked meanwhile."""
        # Who put it into the table may have been interrupted before it began: then whoever waits begins.
        if not self._future.running() and not self._future.done():
            self._start_thread()
        while not self._future.done():
            try:
                self._future.exception(_LOOK_S)
            except TimeoutError:
                if self.process != os.getpid():
                    return False
        return True

    def result(self) -> T:
        return self._future.result()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._fly, name="metasched-compile")
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending, or the system gives no more threads
            self._fly()

    def _fly(self) -> None:
        if next(self._turn, None) is None:
            return  # several callers started it; another thread was first
        self._future.set_running_or_notify_cancel()
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 -- whoever waits raises it
            self._landed()
            self._future.set_exception(error)
        else:
            self._landed()
            self._future.set_result(result)
