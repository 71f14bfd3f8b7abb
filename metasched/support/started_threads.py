"""The threads of a pool, all started before there is work for them.

A pool starts a thread when there is work for one more. Where the system gives none, `submit` raises, and the work stays
in the pool, to be done when a thread is free, or never.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor


def start_threads(pool: ThreadPoolExecutor, count: int) -> None:
    """Start all `count` threads of a pool that has none yet. Raises RuntimeError where the system gives no more."""
    started = threading.Event()
    try:
        for _ in range(count):
            pool.submit(started.wait)  # keeps a thread busy, so that the next one takes another
    finally:
        started.set()
