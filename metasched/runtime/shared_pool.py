"""The pool of threads that a process has, whoever brings its code: this package, or a kernel that was exported.

The source of this file is part of every exported kernel.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NamedTuple

# Where in `sys.modules` all code of a process looks for its pool; the number is that of the functions' interface.
SHARED_POOL = "_metasched_thread_pool_1"


class PoolCode(NamedTuple):
    """Machine code of a pool: what keeps it in memory, its functions' addresses by name, and the one for a fork."""

    owner: object
    functions: Mapping[str, int]
    reset: str


def shared_pool(load: Callable[[], PoolCode]) -> Mapping[str, int]:
    """The addresses of the functions of this process's pool by name; `load` brings its code where there is none yet.

    The code stays in memory until the process ends, as threads wait in it while the interpreter is taken down. A forked
    child has no threads: its pool starts them again.
    """
    pool = sys.modules.get(SHARED_POOL)
    if pool is None:
        code = load()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code.owner))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(code.functions[code.reset]))
        made = ModuleType(SHARED_POOL, "The thread pool of kernels made by metasched.")
        made.functions = code.functions  # type: ignore[attr-defined]
        # One step of the interpreter: of several threads that load a pool at once, one has its own taken by all.
        pool = sys.modules.setdefault(SHARED_POOL, made)
    functions: Mapping[str, int] = pool.functions
    return functions
