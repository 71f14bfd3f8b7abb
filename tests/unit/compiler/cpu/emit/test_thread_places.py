"""Threads that were kept off a processor while they woke may run there again, and wake where there is one alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from tests.support.pool_regions import region

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone says where threads may run")


def test_threads_may_run_where_they_might_before_they_slept() -> None:
    """Who woke them kept them off its own processor."""
    meeting, found = threading.Barrier(2, timeout=60), list[set[int]]()

    def body(_phase: int, _chunk: int) -> None:
        meeting.wait()  # so that another thread is awake
        found.append(os.sched_getaffinity(0))

    for _ in range(20):
        region(body, 1, 2)
        time.sleep(2e-3)
    assert len(found) == 40
    assert all(mask == os.sched_getaffinity(0) for mask in found)


ON_ONE_PROCESSOR = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tests.support.pool_regions import dependent_regions
for _ in range(5):
    assert dependent_regions(10, 2, 3) == 0
    time.sleep(2e-3)
"""


def test_threads_wake_where_there_is_one_processor() -> None:
    subprocess.run([sys.executable, "-c", ON_ONE_PROCESSOR], check=True, timeout=120)
