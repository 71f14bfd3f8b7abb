"""Waiting for measurements while other tasks of the session go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

# How often a thread that waits looks whether the run was interrupted.
_LOOK_S = 0.05


class OutOfTime(Exception):
    """What was waited for was not there in time. No measurement raises it, as one may TimeoutError."""


class _Turn:
    """Which one of several threads computes. Those that come back from waiting are before those that give way, and
    these before those that begin.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_taken = False
        self._back = 0
        self._giving_way = 0

    def begin(self) -> None:
        """Wait until no thread computes, none is back and none has given way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken and not self._back and not self._giving_way)
            self._is_taken = True

    def give_way(self) -> None:
        """Let those that are back compute first, if there are any."""
        with self._changed:
            if not self._back:
                return
            self._giving_way += 1
            self._is_taken = False
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: not self._is_taken and not self._back)
                self._is_taken = True
            finally:
                self._giving_way -= 1

    def go_on(self) -> None:
        """Wait until no thread computes."""
        with self._changed:
            self._back += 1
            try:
                self._changed.wait_for(lambda: not self._is_taken)
                self._is_taken = True
            finally:
                self._back -= 1

    def end(self) -> None:
        """Let another thread compute."""
        with self._changed:
            self._is_taken = False
            self._changed.notify_all()


class Waiting:
    """How the threads of a session wait: one of them computes at a time, and whoever waits lets another go on.

    So no thread sees what another has half done, and what is computed does not depend on how threads are scheduled. One
    whose results are there goes on before another begins: it has something to submit, or to record, which takes little
    time, and to begin with a task takes seconds.
    """

    def __init__(self) -> None:
        self._turn = _Turn()
        self._interrupted = threading.Event()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """While its body runs, and does not wait here, no other thread's does."""
        self._turn.begin()
        try:
            yield
        finally:
            self._turn.end()

    def give_way(self) -> None:
        """Let threads whose results are there go on first; called while computing, in the midst of what takes long."""
        self._turn.give_way()

    def interrupt(self) -> None:
        """Have every thread that waits, or is about to, raise KeyboardInterrupt, until `resume`."""
        self._interrupted.set()

    def resume(self) -> None:
        """Let threads wait again."""
        self._interrupted.clear()

    def result(self, future: Future[T], patience_s: float | None = None) -> T:
        """The result of a future, once it is there; called while computing. Raises its exception.

        With `patience_s`, it waits for so many seconds, and raises OutOfTime then.
        """
        until = float("inf") if patience_s is None else time.monotonic() + patience_s
        if not future.done():  # what is there costs nobody's turn
            with self._others_turn():
                while not future.done() and not self._interrupted.is_set() and (left := until - time.monotonic()) > 0:
                    wait((future,), timeout=min(_LOOK_S, left))
        if not future.done():
            raise KeyboardInterrupt if self._interrupted.is_set() else OutOfTime
        return future.result()

    def sleep(self, seconds: float) -> None:
        """Wait for so long; called while computing."""
        with self._others_turn():
            self._interrupted.wait(seconds)
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    @contextmanager
    def _others_turn(self) -> Iterator[None]:
        self._turn.end()
        try:
            yield
        finally:
            self._turn.go_on()
