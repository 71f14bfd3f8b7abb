"""What metasched uses of llvmlite, and of a Numba that somebody has imported, that is not their public face.

A release of either may change these: then this file does, and `numba_internals`, which imports Numba. That takes longer
than importing all that most processes need of metasched, so what can be known without is found out here.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

from metasched.support.first_use import import_numba

_THREADS_VARIABLE = "NUMBA_NUM_THREADS"
# Where it is, Numba reads its settings in it.
_SETTINGS_FILE = ".numba_config.yaml"


def llvm_lock() -> AbstractContextManager[Any]:
    """llvmlite's own lock, which each of its calls takes."""
    import llvmlite.binding as llvm

    lock: AbstractContextManager[Any] = llvm.ffi.lib._lock
    return lock


def numba_lock() -> AbstractContextManager[Any] | None:
    """The lock of Numba's compiler; None while Numba is not imported."""
    lock: AbstractContextManager[Any] | None = _part_of_numba("numba.core.compiler_lock", "global_compiler_lock")
    return lock


def layer_is_launched() -> bool:
    """Whether Numba's threading layer runs."""
    return bool(_part_of_numba("numba.np.ufunc.parallel", "_is_initialized"))


@lru_cache(maxsize=1)
def numba_threads() -> int:
    """How many threads Numba runs with at most: as Numba says, or would say once it is imported."""
    text = os.environ.get(_THREADS_VARIABLE)
    is_plain = text is None or (text.isdecimal() and int(text) > 0)
    if "numba" not in sys.modules and is_plain and not Path(_SETTINGS_FILE).exists():
        return len(os.sched_getaffinity(0)) if text is None else int(text)
    import_numba()
    return int(_part_of_numba("numba.core.config", "NUMBA_NUM_THREADS"))


def _part_of_numba(module: str, name: str) -> Any:
    """Something of a module of Numba; None unless it is imported."""
    return getattr(sys.modules.get(module), name, None)
