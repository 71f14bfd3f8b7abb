"""Signal handlers and forks while a kernel is compiled, each in a process of its own (`tests/support/scenarios.py`)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal  # where it is used, a handler would find the import under way

import metasched as ms
from metasched.compiler.cpu import codegen
from tests.support.forking import in_child

A = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.ones((3, 5), np.float32)
RESULTS: list[np.ndarray] = []
DEEPEST_HANDLER = 6


def function() -> Any:
    return ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")


def check(f: Callable[..., np.ndarray]) -> None:
    assert_array_equal(f(A, B), A @ B)


def imported() -> None:
    """Has what is forked from this process import nothing when it compiles."""
    check(function())


def during(module: Any, name: str, act: Callable[[], object]) -> None:
    """Have `act` called once, in the midst of the first call of a function."""
    plain = getattr(module, name)

    def acting(*args: Any, **kwargs: Any) -> Any:
        setattr(module, name, plain)
        act()
        return plain(*args, **kwargs)

    setattr(module, name, acting)


def signalled() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.3)


def handler_calls_the_function_that_compiles() -> None:
    f = function()
    signal.signal(signal.SIGUSR1, lambda *_: RESULTS.append(f(A, B)))
    during(ms.api, "compile", signalled)
    check(f)
    assert_array_equal(RESULTS[0], A @ B)


def handler_calls_while_imports_are_under_way() -> None:
    """With nothing patched: the signal comes wherever it comes in the first calls of a process."""
    f = function()
    under_way: list[None] = []

    def handler(*_: object) -> None:
        # On a busy machine compiling lasts for more signals than the interpreter's stack has room for.
        if len(under_way) < DEEPEST_HANDLER:
            under_way.append(None)
            RESULTS.append(f(A, B))
            under_way.pop()

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.05)
    check(f)
    signal.setitimer(signal.ITIMER_REAL, 0)
    check(f)


def handler_calls_another_function() -> None:
    f, g = function(), function()
    signal.signal(signal.SIGUSR1, lambda *_: RESULTS.append(g(A, B)))
    during(codegen, "_run_passes", signalled)
    check(f)
    assert_array_equal(RESULTS[0], A @ B)


def handler_packs_the_kernel_that_packs() -> None:
    program = ms.parse_program(
        "program matmul(A: f32[64, 64], const W: f32[64, 64]) -> C: f32[64, 64]:\n"
        "    dense: C[i, j] = sum[k](A[i, k] * W[k, j])\n"
    )
    sch = ms.Schedule(program)
    sch.cache_read(sch.get_block("dense"), "W")
    kernel = ms.compile(program, trace=sch.trace)
    x, w = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    signal.signal(signal.SIGUSR1, lambda *_: RESULTS.append(kernel.pack(w)(x)))
    from metasched.runtime import packed

    during(packed, "build", signalled)
    assert_array_equal(kernel.pack(w)(x), RESULTS[0])


def fork_beside_a_thread_that_compiles() -> None:
    f = function()
    begun = threading.Event()
    during(ms.api, "compile", lambda: (begun.set(), time.sleep(0.5)))
    thread = threading.Thread(target=lambda: RESULTS.append(f(A, B)))
    thread.start()
    begun.wait()
    in_child(lambda: check(f))
    thread.join()
    assert_array_equal(RESULTS[0], A @ B)


def fork_beside_a_thread_inside_llvm() -> None:
    """The child inherits Numba's lock, and whatever LLVM was doing."""
    f, g = function(), function()
    begun = threading.Event()
    during(codegen, "_run_passes", lambda: (begun.set(), time.sleep(0.5)))
    thread = threading.Thread(target=f, args=(A, B))
    thread.start()
    begun.wait()
    in_child(lambda: (check(f), check(g)))
    thread.join()


def fork_from_a_handler_while_compiling() -> None:
    f = function()
    status: list[int] = []
    parent = os.getpid()

    def handler(*_: object) -> None:
        pid = os.fork()
        if pid:
            status.append(pid)
        else:
            signal.alarm(40)

    signal.signal(signal.SIGUSR1, handler)
    during(ms.api, "compile", signalled)
    check(f)
    if os.getpid() != parent:
        os._exit(0)
    assert os.waitpid(status[0], 0)[1] == 0


def many_forks_beside_threads_that_compile() -> None:
    def compiling() -> None:
        for n in range(3):
            f = function()
            f(np.ones((4, n + 1), np.float32), np.ones((n + 1, 5), np.float32))

    threads = [threading.Thread(target=compiling) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        in_child(lambda: check(function()))
    for thread in threads:
        thread.join()
