"""The process's table: where the code of kernels finds the pool of threads, and how many of them it may use.

That is Numba's number: NUMBA_NUM_THREADS, or what the calling thread has last given `numba.set_num_threads`. Numba
keeps the latter in its threading layer, which this package does not use otherwise.
"""

from __future__ import annotations

import ctypes
from typing import Any

from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.thread_pool import LAUNCH_FUNCTION, RESET_FUNCTION, START_FUNCTION
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.runtime.shared_pool import PoolCode, shared_pool
from metasched.support.compiler_internals import layer_is_launched, numba_threads
from metasched.support.first_use import import_numba
from metasched.target import Target

_OPENMP = "omp"


class ThreadState:
    """The table that emitted code reads. It has the pool once a parallel kernel is loaded."""

    def __init__(self) -> None:
        self._table = (ctypes.c_int64 * runtime.SLOTS)()
        self._openmp: Any = None
        self._follows_numba = False

    @property
    def address(self) -> int:
        """Where the table is; kernels can be run once they know it, parallel ones after `load`."""
        return ctypes.addressof(self._table)

    def load(self) -> None:
        """Load the pool's code, which a process needs to run a parallel kernel."""
        if not self._table[runtime.LAUNCH]:
            self._fill_table()

    def _fill_table(self) -> None:
        import_code_generator()
        functions = shared_pool(_load_pool)
        self._table[runtime.LIMIT] = numba_threads()
        self._table[runtime.ALLOWED] = functions[runtime.ALLOWED_FUNCTION]
        self._table[runtime.LAUNCH] = functions[LAUNCH_FUNCTION]

    def follow_numba(self) -> None:
        """Take the number of threads from Numba's threading layer, if that has been launched."""
        if not self._follows_numba and layer_is_launched():
            self._follow_numba_layer()

    def launch_numba(self) -> None:
        """Launch Numba's threading layer and follow it: compiled code may call `set_num_threads` unseen."""
        if self._follows_numba:
            return
        from metasched.support.numba_internals import parallel

        try:
            parallel.get_num_threads()
        except (ValueError, ImportError):
            return  # no layer can be loaded, so no number of threads was set
        self.follow_numba()

    def _follow_numba_layer(self) -> None:
        import_numba()
        from metasched.support.numba_internals import openmp_library, parallel, thread_count_function

        if parallel.threading_layer() == _OPENMP:
            self._openmp = ctypes.CDLL(openmp_library())
            self._table[runtime.IN_PARALLEL] = _function_address(self._openmp.omp_in_parallel)
        self._table[runtime.THREAD_COUNT] = _function_address(thread_count_function())
        self._follows_numba = True

    def start(self, threads: int) -> None:
        """Use at most so many threads, whatever Numba's number is, and start them now."""
        self.load()
        self._table[runtime.LIMIT] = threads
        functions = shared_pool(_load_pool)
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(functions[START_FUNCTION])(threads)


def _load_pool() -> PoolCode:
    from metasched.compiler.cpu.codegen import LoadedCode, compile_text

    code = LoadedCode(compile_text(runtime.PROCESS_MODULE, Target.detect(threads=1)))
    return PoolCode(code, {name: code.address(name) for name in runtime.PROCESS_FUNCTIONS}, RESET_FUNCTION)


def _function_address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# One table for the process, because its threads are the process's.
state = ThreadState()
