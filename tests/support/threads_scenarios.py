"""What parallel kernels go through, all in one process under one threading layer: `python -m
tests.support.threads_scenarios LAYER`.

Each scenario is a function; `passed NAME` is printed after it. The order matters: the first one forks before threads
have started, and the last ones fork after.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaWarning

from metasched.compiler.cpu.emit import runtime
from metasched.runtime.threads import state
from tests.support.forking import in_child
from tests.support.threads_support import COLUMNS, ROWS, expected, inputs, make_kernel

LAYER = sys.argv[1]
LAUNCH = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)


def check(kernel: Callable[..., np.ndarray], times: int = 1) -> None:
    x = inputs(1)[0]
    for _ in range(times):
        np.testing.assert_array_equal(kernel(x), expected(x))


def scratch(kernel: Any) -> np.ndarray:
    """A workspace of the kernel, one row a thread."""
    size = kernel.workspace_bytes
    raw = np.zeros(size + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:size].reshape(kernel.target.threads, -1)


def fork_before_threads_have_started() -> None:
    kernel = make_kernel(2)
    in_child(lambda: check(kernel, 10))
    check(kernel)


def any_number_of_threads() -> None:
    """More than Numba has, or fewer."""
    for threads in (1, 2, 3, 8, 40):
        check(make_kernel(threads), 30)


def each_thread_has_its_slice() -> None:
    kernel = make_kernel(2)
    slices = scratch(kernel)
    x, y = inputs(1)[0], np.zeros((ROWS, COLUMNS), np.float32)
    kernel.compiled(x, y, workspace=slices)
    rows = slices[:, : COLUMNS * 4].copy().view(np.float32)
    np.testing.assert_array_equal(rows[0], 2 * x[ROWS // 2 - 1])
    np.testing.assert_array_equal(rows[1], 2 * x[-1])


def numba_thread_count_is_respected() -> None:
    kernel = make_kernel(3)
    slices = scratch(kernel)
    x, y = inputs(1)[0], np.zeros((ROWS, COLUMNS), np.float32)
    numba.set_num_threads(1)
    kernel.compiled(x, y, workspace=slices)
    numba.set_num_threads(3)
    np.testing.assert_array_equal(y, expected(x))
    assert slices[0].any()
    assert not slices[1:].any()


def numba_thread_count_is_respected_everywhere() -> None:
    """Called from Python and from compiled code: as many chunks as Numba has threads for this thread of Python's."""
    kernel = make_kernel(3)
    x = inputs(1)[0]

    @numba.njit
    def called(x: np.ndarray) -> np.ndarray:
        return kernel(x)

    check(kernel)
    called(x)
    table, plain = state._table, state._table[runtime.LAUNCH]
    chunks: list[int] = []

    @LAUNCH
    def counting(*arguments: int) -> None:
        chunks.append(arguments[-1])
        LAUNCH(plain)(*arguments)

    table[runtime.LAUNCH] = ctypes.cast(counting, ctypes.c_void_p).value or 0
    for threads in (1, 2, 3):
        numba.set_num_threads(threads)
        for call in (kernel, called):
            chunks.clear()
            np.testing.assert_array_equal(call(x), expected(x))
            assert chunks == [threads], (threads, chunks)
    table[runtime.LAUNCH] = plain


def same_bits_at_every_call() -> None:
    kernel = make_kernel(3)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    first = kernel(x).tobytes()
    assert all(kernel(x).tobytes() == first for _ in range(100))


def many_python_threads_at_once() -> None:
    kernel = make_kernel(3)

    def work(x: np.ndarray) -> bool:
        return all(np.array_equal(kernel(x), expected(x)) for _ in range(200))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, inputs(6)))


def gil_is_released() -> None:
    kernel = make_kernel(2)
    x = inputs(1)[0]
    call = kernel.compiled.bind(x, np.zeros_like(x))
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0)  # gives the GIL up

    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # the other thread only gets the GIL when it is given up
    thread.start()
    start = counted
    for _ in range(1_000_000):
        call()
        if counted > start + 3:
            break
    done.set()
    sys.setswitchinterval(interval)
    thread.join()
    assert counted > start + 3


KERNEL = make_kernel(2)
INTO, ALLOCATING = KERNEL.numba_into, KERNEL.numba


@numba.njit
def sequential(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    INTO(x, y)
    return ALLOCATING(x) + y


@numba.njit(parallel=True)
def nested(xs: np.ndarray, ys: np.ndarray) -> None:
    for n in numba.prange(xs.shape[0]):
        INTO(xs[n], ys[n])


@numba.njit(nogil=True)
def without_gil(x: np.ndarray, y: np.ndarray) -> None:
    for _ in range(200):
        INTO(x, y)


def check_nested() -> None:
    xs = inputs(16)
    ys = np.zeros_like(xs)
    nested(xs, ys)
    np.testing.assert_array_equal(ys, expected(xs))


def from_njit_code() -> None:
    x = inputs(1)[0]
    np.testing.assert_array_equal(sequential(x, np.empty_like(x)), 2 * expected(x))


def from_prange() -> None:
    for _ in range(20):
        check_nested()


def from_njit_code_without_the_gil_in_several_threads() -> None:
    xs = inputs(4)
    ys = np.zeros_like(xs)
    without_gil(xs[0], ys[0])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(without_gil, xs, ys))
    np.testing.assert_array_equal(ys, expected(xs))


def cached(x: np.ndarray, y: np.ndarray) -> None:
    INTO(x, y)


def callers_are_not_cached() -> None:
    """A cached caller would hold an address of this process; Numba warns, and compiles again next time."""
    x = inputs(1)[0]
    y = np.zeros_like(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NumbaWarning)
        numba.njit(cache=True)(cached)(x, y)
    assert any("dynamic globals" in str(w.message) for w in caught), [str(w.message) for w in caught]
    np.testing.assert_array_equal(y, expected(x))


def code_lives_as_long_as_a_compiled_caller() -> None:
    kernel = make_kernel(2)
    alive = weakref.ref(kernel.compiled)
    into = kernel.numba_into

    @numba.njit
    def caller(x: np.ndarray, y: np.ndarray) -> None:
        into(x, y)  # noqa: F821 -- deleted below, on purpose

    x = inputs(1)[0]
    y = np.zeros_like(x)
    caller(x, y)
    del kernel, into
    gc.collect()
    for _ in range(3):
        make_kernel(2)
    gc.collect()
    assert alive() is not None
    y[:] = 0
    caller(x, y)
    np.testing.assert_array_equal(y, expected(x))


def code_is_freed_with_its_kernel() -> None:
    """Hundreds of kernels do not pile up."""

    def resident() -> int:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    start = 0
    for n in range(60):
        kernel = make_kernel(2)
        check(kernel)
        if n == 20:
            start = resident()
    alive = weakref.ref(kernel.compiled)
    del kernel
    gc.collect()
    assert alive() is None
    assert resident() - start < 8 << 20


def fork_after_threads_have_started() -> None:
    """A child has its threads anew, and so has a child of it; Numba's OpenMP layer is refused to children by Numba."""

    def in_grandchild() -> None:
        if LAYER != "omp":
            check_nested()
        check(KERNEL, 10)

    in_child(lambda: (check(KERNEL, 10), in_child(in_grandchild), check(KERNEL, 10)))
    check(KERNEL)


SCENARIOS = (
    fork_before_threads_have_started,
    any_number_of_threads,
    each_thread_has_its_slice,
    numba_thread_count_is_respected,
    numba_thread_count_is_respected_everywhere,
    same_bits_at_every_call,
    many_python_threads_at_once,
    gil_is_released,
    from_njit_code,
    from_prange,
    from_njit_code_without_the_gil_in_several_threads,
    callers_are_not_cached,
    code_lives_as_long_as_a_compiled_caller,
    code_is_freed_with_its_kernel,
    fork_after_threads_have_started,
)

if __name__ == "__main__":
    names = sys.argv[2:]
    for scenario in SCENARIOS if not names else [globals()[name] for name in names]:
        scenario()
        print("passed", scenario.__name__, flush=True)
