"""What metasched uses of Numba and llvmlite that is not their public face: all of it, and only here.

A release of either may change these: then this file does. Importing it imports Numba, which takes as long as the rest
of metasched together: what compiles and loads imports it, when it does.
"""

from __future__ import annotations

import importlib
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir as ir
from numba.core import cgutils as cgutils
from numba.core import config as config
from numba.core import types as types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock as global_compiler_lock
from numba.core.errors import TypingError as TypingError
from numba.core.imputils import lower_builtin as lower_builtin
from numba.core.imputils import lower_constant as lower_constant
from numba.core.types.containers import BaseTuple as BaseTuple
from numba.core.types.misc import VarArg as VarArg
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype as from_dtype
from numba.np.ufunc import parallel as parallel

_NAME = "metasched"


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """A library of code that was compiled before."""

    def load_object(self, data: bytes) -> None:
        self.enable_object_caching()
        self._set_compiled_object(data)
        self._finalize_final_module()


class CodeGenerator(JITCPUCodegen):  # type: ignore[misc]
    """Numba's code generator for a CPU that may be less than the host, by LLVM's names of it and of its features."""

    _library_class = _Library

    def __init__(self, cpu: str, features: str) -> None:
        self._cpu = cpu
        self._features = features
        super().__init__(_NAME)

    def _get_host_cpu_name(self) -> str:
        return self._cpu

    def _get_host_cpu_features(self) -> str:
        return self._features

    @property
    def target_machine(self) -> Any:
        return self._tm

    @property
    def data_layout(self) -> str:
        return str(self._data_layout)

    @property
    def engine(self) -> Any:
        return self._engine


def hold_compilers() -> None:
    """Wait until no thread is inside Numba's compiler or LLVM, and keep others out."""
    global_compiler_lock.acquire()
    llvm.ffi.lib._lock.__enter__()  # llvmlite's own, which each of its calls takes


def let_compilers_go() -> None:
    """What ends `hold_compilers`."""
    llvm.ffi.lib._lock.__exit__(None, None, None)
    global_compiler_lock.release()


def empty_array(context: Any, builder: Any, kind: Any, shape: Any) -> Any:
    """A new array in code under construction: what `numpy.empty` lowers to."""
    return arrayobj._empty_nd_impl(context, builder, kind, shape)._getvalue()


def layer_is_launched() -> bool:
    """Whether Numba's threading layer runs."""
    return bool(parallel._is_initialized)


def thread_count_function() -> Any:
    """Numba's C function that gives its number of threads, once its layer runs."""
    return parallel._get_num_threads


def openmp_library() -> str:
    """The file of Numba's OpenMP layer, which has been linked with the OpenMP that the process runs."""
    return str(importlib.import_module("numba.np.ufunc.omppool").__file__)
