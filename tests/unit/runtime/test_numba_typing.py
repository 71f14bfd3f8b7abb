"""A kernel inside `@njit` code: as a global, a closure and an argument."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest

import metasched as ms

PROGRAM = "program add[N=37](A: f32[N], B: f32[N]) -> C: f32[N]:\n    C[i] = A[i] + B[i]\n"


def arrays(count: int = 37) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.random(count, np.float32), rng.random(count, np.float32)


@pytest.fixture(scope="module")
def kernel() -> ms.Kernel:
    return ms.compile(ms.parse_program(PROGRAM), target=ms.Target.detect(threads=1))


WITHOUT_NUMBA = """
import os, sys
import numpy as np
import metasched as ms

program = ms.parse_program("program p[N=64](A: f32[N]) -> B: f32[N]:\\n    b: B[i] = A[i] * 2\\n")
schedule = ms.Schedule(program)
schedule.parallel(schedule.get_loops(schedule.get_block("b"))[0])
kernel = ms.compile(program, trace=schedule.trace)
x = np.arange(64, dtype=np.float32)
np.testing.assert_array_equal(kernel(x), 2 * x)
threads = ms.Target.detect().threads
assert "numba" not in sys.modules

import numba

assert threads == numba.config.NUMBA_NUM_THREADS
np.testing.assert_array_equal(numba.njit(lambda a: kernel(kernel(a)))(x), 4 * x)
np.testing.assert_array_equal(numba.njit(lambda k, a: k.numba(a))(kernel, x), 2 * x)
numba.set_num_threads(1)
np.testing.assert_array_equal(kernel(x), 2 * x)
"""


@pytest.mark.parametrize("threads", [None, "3"])
def test_kernels_run_without_numba_which_may_come_later(threads: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"}
    environment |= {} if threads is None else {"NUMBA_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closure(kernel: ms.Kernel) -> None:
    @numba.njit
    def twice(a: Any, b: Any) -> Any:
        return kernel.numba(kernel.numba(a, b), b)

    a, b = arrays()
    np.testing.assert_array_equal(twice(a, b), (a + b) + b)


def test_a_plain_call(kernel: ms.Kernel) -> None:
    @numba.njit
    def twice(a: Any, b: Any) -> Any:
        return kernel(kernel(a, b), b)

    @numba.njit
    def through(k: Any, a: Any, b: Any) -> Any:
        return k(a, b)

    a, b = arrays()
    np.testing.assert_array_equal(twice(a, b), (a + b) + b)
    np.testing.assert_array_equal(through(kernel, a, b), a + b)
    other = ms.compile(ms.parse_program(PROGRAM.replace("A[i] + B[i]", "A[i] - B[i]")))
    np.testing.assert_array_equal(through(other, a, b), a - b)


def test_a_plain_call_that_does_not_fit(kernel: ms.Kernel) -> None:
    a, b = arrays()
    with pytest.raises(numba.core.errors.TypingError, match="`add` takes 3 arguments"):
        numba.njit(lambda k, a: k(a))(kernel, a)
    with pytest.raises(numba.core.errors.TypingError, match="argument"):
        numba.njit(lambda a, b: kernel(a, B=b))(a, b)
    with pytest.raises(ms.KernelError, match="another shape"):
        numba.njit(lambda k, a, b: k(a, b))(kernel, *arrays(36))


def test_a_plain_call_in_a_parallel_loop(kernel: ms.Kernel) -> None:
    @numba.njit(parallel=True)
    def rows(a: Any, b: Any, c: Any) -> None:
        for n in numba.prange(len(a)):
            c[n] = kernel(a[n], b)

    a, b = np.random.default_rng(0).random((5, 37), np.float32), arrays()[1]
    c = np.zeros_like(a)
    rows(a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_an_argument(kernel: ms.Kernel) -> None:
    @numba.njit
    def apply(k: Any, a: Any, b: Any, c: Any) -> None:
        k.numba_into(a, b, c)

    a, b = arrays()
    c = np.zeros_like(a)
    apply(kernel, a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_another_shape_is_an_error_there_too(kernel: ms.Kernel) -> None:
    @numba.njit
    def once(a: Any, b: Any) -> Any:
        return kernel.numba(a, b)

    with pytest.raises(ms.KernelError, match="another shape"):
        once(*arrays(36))
