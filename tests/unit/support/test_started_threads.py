from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from metasched.support.started_threads import start_threads


def test_all_threads_of_a_pool_run_before_there_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(3, "pool") as pool:
        start_threads(pool, 3)
        monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("one was started later"))
        barrier = threading.Barrier(3, timeout=10)
        assert sorted(future.result() for future in [pool.submit(barrier.wait) for _ in range(3)]) == [0, 1, 2]


def test_a_pool_that_lacks_a_thread_can_be_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if thread.name == "pool_1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with ThreadPoolExecutor(3, "pool") as pool, pytest.raises(RuntimeError, match="start new thread"):
        start_threads(pool, 3)
