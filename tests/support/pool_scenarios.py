"""What the pool of threads goes through, each in a process of its own (`tests/support/scenarios.py`)."""

from __future__ import annotations

import ctypes
import resource
import runpy
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from metasched.compiler.cpu.emit.thread_pool import MAX_CHUNKS
from metasched.runtime.shared_pool import SHARED_POOL
from tests.support.forking import in_child
from tests.support.pool_regions import dependent_regions, region
from tests.support.threads_support import expected, inputs, make_kernel


def tasks() -> set[str]:
    """The threads of this process, as the system knows them."""
    return {path.name for path in Path("/proc/self/task").iterdir()}


def status(task: str, field: str) -> str:
    text = Path(f"/proc/self/task/{task}/status").read_text()
    return next(line.split(":")[1].split()[0] for line in text.splitlines() if line.startswith(field + ":"))


def started_by(act: Callable[[], object]) -> set[str]:
    before = tasks()
    act()
    return tasks() - before


def meet(chunks: int, phases: int = 1) -> None:
    """A region that needs as many threads as it has chunks."""
    meeting = threading.Barrier(chunks, timeout=60)
    region(lambda *_: meeting.wait(), phases, chunks)


def right(count: int, phases: int, chunks: int) -> None:
    assert dependent_regions(count, phases, chunks) == 0


def threads_are_one_fewer_than_chunks_and_stay() -> None:
    right(1, 1, 1)
    assert len(started_by(lambda: meet(5))) == 4
    assert not started_by(lambda: [meet(n) for n in (2, 3, 5)])
    assert len(started_by(lambda: meet(7))) == 2
    assert not started_by(lambda: in_child(lambda: meet(6)))


def a_process_of_serial_kernels_has_no_pool() -> None:
    kernel, x = make_kernel(1), inputs(1)[0]
    np.testing.assert_array_equal(kernel(x), expected(x))
    assert SHARED_POOL not in sys.modules
    parallel = make_kernel(2)
    np.testing.assert_array_equal(parallel(x), expected(x))
    assert SHARED_POOL in sys.modules


def threads_without_work_sleep() -> None:
    workers = started_by(lambda: meet(4))
    until = time.monotonic() + 30
    while any(status(task, "State") != "S" for task in workers) and time.monotonic() < until:
        time.sleep(0.01)
    assert [status(task, "State") for task in workers] == ["S"] * 3
    meet(4, phases=3)


def threads_leave_signals_to_others() -> None:
    for task in started_by(lambda: meet(3)):
        blocked = int(status(task, "SigBlk"), 16)
        for number in (signal.SIGINT, signal.SIGALRM, signal.SIGPROF, signal.SIGUSR1):
            assert blocked >> (number - 1) & 1, number
        for number in (signal.SIGSEGV, signal.SIGFPE):
            assert not blocked >> (number - 1) & 1, number
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


def as_many_chunks_as_there_may_be() -> None:
    right(2, 2, MAX_CHUNKS)


def the_system_gives_no_threads() -> None:
    """The caller runs everything, and workers come when they can."""
    right(1, 1, 1)
    page = resource.getpagesize()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * page
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), before[1]))
    assert len(started_by(lambda: right(100, 3, 20))) < 19
    resource.setrlimit(resource.RLIMIT_AS, before)
    meet(20)


def forks_of_every_kind() -> None:
    in_child(lambda: (meet(3), right(1000, 3, 3)))
    right(1000, 3, 3)
    for _ in range(10):
        in_child(lambda: (meet(2), right(200, 2, 3), in_child(lambda: (meet(4), right(200, 2, 5)))))
        right(20, 2, 3)
    meet(3)


def forks_beside_threads_that_run_regions() -> None:
    """A child may be forked in the midst of a region of another thread, which it must not wait for."""
    right(1, 1, 1)  # a fork beside an import that another thread is at would be about that
    done = threading.Event()

    def running() -> None:
        while not done.is_set():
            right(2000, 3, 3)

    threads = [threading.Thread(target=running, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        in_child(lambda: (meet(3), right(100, 2, 4)))
    done.set()
    for thread in threads:
        thread.join()


def signal_handlers_call() -> None:
    """Between calls, and while another thread has the pool."""
    kernel, x = make_kernel(3), inputs(1)[0]
    calls = 0

    def call() -> None:
        np.testing.assert_array_equal(kernel(x), expected(x))
        right(3, 2, 3)

    def handler(*_: object) -> None:
        nonlocal calls
        call()
        calls += 1
        signal.setitimer(signal.ITIMER_REAL, 0.001)

    call()
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    other = threading.Thread(target=lambda: right(20_000, 3, 3))
    other.start()
    until = time.monotonic() + 30
    while calls < 50 and time.monotonic() < until:
        call()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    other.join()
    assert calls >= 50


def waiting_takes_about_as_long_as_threads_look() -> None:
    """Work comes, and ends, just when a thread is about to sleep: none may miss it."""
    rng = np.random.default_rng(0)
    nanosleep = ctypes.CDLL(None).usleep
    nanosleep.argtypes = [ctypes.c_uint]

    def sleep(delays: np.ndarray, phase: int, chunk: int) -> None:
        nanosleep(int(delays[phase, chunk]))

    for delays in rng.integers(0, 120, (2000, 2, 3)):
        region(partial(sleep, delays), 2, 3)


def exported_kernels_and_the_package_share_a_pool() -> None:
    x = inputs(1)[0]
    before = tasks()
    with tempfile.TemporaryDirectory() as folder:
        paths = [make_kernel(3).export(Path(folder) / f"kernel{n}.py") for n in range(2)]
        exported = [runpy.run_path(str(path))["double"] for path in paths]
    for _ in range(5):
        own = make_kernel(3)
        for kernel in (*exported, own) * 20:
            np.testing.assert_array_equal(kernel(x), expected(x))
    meet(3)
    assert len(tasks() - before) == 2


def the_process_ends_while_threads_look_for_work() -> None:
    meet(4)


def the_process_ends_while_a_thread_runs_regions() -> None:
    begun = threading.Event()

    def running() -> None:
        while True:
            right(50, 3, 3)
            begun.set()

    threading.Thread(target=running, daemon=True).start()
    begun.wait()
