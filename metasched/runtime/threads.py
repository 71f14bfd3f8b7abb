"""Numba's threading layer, as this process's kernels reach it.

Every kernel holds the address of one table per process: the layer's functions, whether it takes one caller at a time,
which threads are its workers, and whether this process is a fork that must not use it. What this cannot guard: on the
workqueue layer, a kernel and a parallel function of Numba's own called from two Python threads at once; Numba ends the
process then. The OpenMP layer has no such limit.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any

from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.errors import KernelError, ResourceError
from metasched.target import Target

if TYPE_CHECKING:  # it imports Numba
    from metasched.compiler.cpu.codegen import LoadedCode

_MOST_WORKERS = 1024
_CALLBACK = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, _CALLBACK, *[ctypes.c_void_p] * 4, *[ctypes.c_ssize_t] * 3)

FORKED = (
    "this process is a fork of one that had started OpenMP threads, and cannot run parallel kernels. Start processes "
    "with multiprocessing's `spawn` or `forkserver` method, or set NUMBA_THREADING_LAYER=workqueue before Numba starts"
)


class Layer(Enum):
    """Numba's threading layers."""

    OMP = "omp"
    WORKQUEUE = "workqueue"
    TBB = "tbb"


_MODULES = {Layer.OMP: "omppool", Layer.WORKQUEUE: "workqueue", Layer.TBB: "tbbpool"}


class ThreadState:
    """The table that emitted code reads, and what keeps it true: launching the layer, and forking."""

    def __init__(self) -> None:
        self._slots = (ctypes.c_int64 * (runtime.FIRST_WORKER + _MOST_WORKERS))()
        self._lock = threading.RLock()  # a signal handler may want a kernel while one is being loaded
        self._layer: Layer | None = None
        self._openmp: Any = None
        # Two where a signal handler interrupted loading it: neither goes, as kernels may have the address of either.
        self._launchers: list[LoadedCode] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @property
    def address(self) -> int:
        """Where the table is; kernels can be run once they know it."""
        with self._lock:
            if not self._slots[runtime.LAUNCH]:
                self._load_launcher()
        return ctypes.addressof(self._slots)

    def _load_launcher(self) -> None:
        import_code_generator()
        from metasched.compiler.cpu.codegen import LoadedCode, compile_text

        code = LoadedCode(compile_text(runtime.LAUNCHER, Target.detect(threads=1)))
        ctypes.c_void_p.from_address(code.address(runtime.STATE)).value = ctypes.addressof(self._slots)
        launch, allowed = code.address(runtime.LAUNCH_FUNCTION), code.address(runtime.ALLOWED_FUNCTION)
        self._launchers.append(code)
        self._slots[runtime.ALLOWED] = allowed
        self._slots[runtime.LAUNCH] = launch

    @property
    def is_ready(self) -> bool:
        """Whether parallel kernels can run on several threads; they run on one until then."""
        slots = self._slots
        return bool(slots[runtime.PARALLEL_FOR] and (slots[runtime.WORKERS] or not slots[runtime.EXCLUSIVE]))

    @property
    def layer(self) -> Layer | None:
        """The layer in use; None before the first parallel kernel."""
        return self._layer

    def ready(self) -> None:
        """Launch the layer unless it runs, and make its workers known; raises KernelError in a forked child."""
        if self._slots[runtime.FORKED]:
            raise KernelError(FORKED)
        with self._lock:
            if self._layer is None:
                self._launch()
            if self._layer is Layer.WORKQUEUE and not self._slots[runtime.WORKERS]:
                self._find_workers()

    def _launch(self) -> None:
        from numba.np.ufunc import parallel

        try:
            parallel.get_num_threads()  # starts the layer
        except (ValueError, ImportError) as error:  # none of those asked for can be loaded
            raise ResourceError(_no_layer(error)) from error
        layer = Layer(parallel.threading_layer())
        library = importlib.import_module(f"numba.np.ufunc.{_MODULES[layer]}")
        slots = self._slots
        slots[runtime.PARALLEL_FOR] = library.parallel_for
        slots[runtime.THREAD_COUNT] = library.get_num_threads
        slots[runtime.THREAD_IDENT] = _address(ctypes.pythonapi.PyThread_get_thread_ident)
        slots[runtime.EXCLUSIVE] = int(layer is Layer.WORKQUEUE)
        if layer is Layer.OMP:
            self._openmp = ctypes.CDLL(library.__file__)
            slots[runtime.IN_PARALLEL] = _address(self._openmp.omp_in_parallel)
        self._layer = layer

    def _find_workers(self) -> None:
        """Run a task on every worker that notes which thread it is on.

        A worker that calls a kernel (from a `prange` body) must be recognised before it enters the layer again.
        """
        from numba.core import config

        found: set[int] = set()
        count = int(config.NUMBA_NUM_THREADS)
        task = _CALLBACK(lambda *_: found.add(threading.get_ident()))
        args = (ctypes.c_void_p * 1)(None)
        numbers = (ctypes.c_int64 * 2)(count, 1)
        steps = (ctypes.c_int64 * 2)(1, 1)
        parallel_for = _PARALLEL_FOR(self._slots[runtime.PARALLEL_FOR])
        parallel_for(task, args, numbers, steps, None, 1, 1, count)
        for n, ident in enumerate(sorted(found)[:_MOST_WORKERS]):
            self._slots[runtime.FIRST_WORKER + n] = ctypes.c_int64(ident).value
        self._slots[runtime.WORKERS] = len(found)

    def _after_fork(self) -> None:
        """In a forked child: no worker thread came along."""
        self._lock = threading.RLock()
        self._slots[runtime.BUSY] = 0
        self._slots[runtime.WORKERS] = 0
        if _openmp_started() and sys.platform.startswith("linux"):
            self._slots[runtime.FORKED] = 1


def _no_layer(error: Exception) -> str:
    from numba.core import config

    asked = config.THREADING_LAYER
    return (
        f"Numba cannot load a threading layer (NUMBA_THREADING_LAYER is `{asked}`): {str(error).splitlines()[0]}\n"
        "  hint: leave NUMBA_THREADING_LAYER out, or set it to `workqueue`, which is part of Numba; `tbb` needs the "
        "package tbb, `omp` an OpenMP runtime"
    )


def _openmp_started() -> bool:
    """Whether Numba has started OpenMP, for kernels or for anything else."""
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return parallel is not None and getattr(parallel, "_threading_layer", None) == Layer.OMP.value


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# One table for the process, because Numba's layer is one for the process.
state = ThreadState()
