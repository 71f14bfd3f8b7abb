"""What metasched uses of Numba that is not its public face, but for what `compiler_internals` asks without an import.

A release of Numba may change these: then these two files do. Importing this imports Numba, which takes as long as the
rest of metasched together: what is about code that Numba compiles imports it, when it has to.
"""

from __future__ import annotations

import importlib
from typing import Any

from llvmlite import ir as ir
from numba.core import cgutils as cgutils
from numba.core import types as types
from numba.core.errors import TypingError as TypingError
from numba.core.imputils import lower_builtin as lower_builtin
from numba.core.imputils import lower_constant as lower_constant
from numba.core.registry import cpu_target
from numba.core.types.containers import BaseTuple as BaseTuple
from numba.core.types.misc import VarArg as VarArg
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype as from_dtype
from numba.np.ufunc import parallel as parallel


def refresh_registries() -> None:
    """Have Numba see what has been registered since it began to compile."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def empty_array(context: Any, builder: Any, kind: Any, shape: Any) -> Any:
    """A new array in code under construction: what `numpy.empty` lowers to."""
    return arrayobj._empty_nd_impl(context, builder, kind, shape)._getvalue()


def thread_count_function() -> Any:
    """Numba's C function that gives its number of threads, once its layer runs."""
    return parallel._get_num_threads


def openmp_library() -> str:
    """The file of Numba's OpenMP layer, which has been linked with the OpenMP that the process runs."""
    return str(importlib.import_module("numba.np.ufunc.omppool").__file__)
