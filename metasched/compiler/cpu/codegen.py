"""Machine code: Numba's code generator, for any target and with a light pipeline of passes.

Emission leaves little to LLVM's middle end: vectors, unrolling, hoisting and common subexpressions are done. So the
pipeline is short. Each kernel has an execution engine of its own, so its code is freed with it; Numba's usual
generator keeps every module for the life of the process.

Importing this imports Numba, which takes as long as the rest of metasched together: it is imported by what compiles
and loads, when it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock

from metasched.errors import BuildError
from metasched.support.forks import guards
from metasched.target import Target

_NAME = "metasched"


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """A library whose modules come as text and are optimised once, by the light pipeline."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen.data_layout

    def _optimize_final_module(self) -> None:
        _optimize(self._final_module, self._codegen.target_machine)

    def object_code(self) -> bytes:
        return bytes(self._get_compiled_object())

    def load_object(self, data: bytes) -> None:
        self.enable_object_caching()
        self._set_compiled_object(data)
        self._finalize_final_module()


class _Codegen(JITCPUCodegen):  # type: ignore[misc]
    """Numba's code generator for a target that may be less than the host."""

    _library_class = _Library

    def __init__(self, target: Target) -> None:
        self._target = target
        super().__init__(_NAME)

    def _get_host_cpu_name(self) -> str:
        return self._target.name

    def _get_host_cpu_features(self) -> str:
        return self._target.llvm_features()

    @property
    def target_machine(self) -> Any:
        return self._tm

    @property
    def data_layout(self) -> str:
        return str(self._data_layout)

    @property
    def engine(self) -> Any:
        return self._engine


def _optimize(module: Any, machine: Any) -> None:
    """Register arrays become SSA values; what emission repeated or left dead goes."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()  # the math functions
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.run(module, passes)


@dataclass(frozen=True)
class ObjectCode:
    """Machine code as bytes, to be loaded in this process or another on the same kind of machine."""

    target: Target
    data: bytes
    llvm: str


def compile_text(text: str, target: Target) -> ObjectCode:
    """Compile a module; raises BuildError when LLVM does not take it."""
    with global_compiler_lock:
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as error:
            raise BuildError("LLVM rejected the module", str(error)) from error
        module.triple = llvm.get_process_triple()
        library = _Codegen(target).create_library(_NAME)
        library.enable_object_caching()
        library.add_llvm_module(module)
        library.finalize()
        return ObjectCode(target, library.object_code(), library.get_llvm_str())


def assembly(code: ObjectCode) -> str:
    """Compiled code as assembly text."""
    return _assembly(code, comments=False)


def commented_assembly(code: ObjectCode) -> str:
    """Compiled code as assembly text, with LLVM's comments on loops and on what it spills."""
    return _assembly(code, comments=True)


def _assembly(code: ObjectCode, *, comments: bool) -> str:
    with global_compiler_lock:
        # The target machine belongs to the code generator, which has to outlive it.
        codegen = _Codegen(code.target)
        codegen.target_machine.set_asm_verbosity(comments)
        return str(codegen.target_machine.emit_assembly(llvm.parse_assembly(code.llvm)))


class LoadedCode:
    """Object code in memory, ready to run. It is freed with this object."""

    def __init__(self, code: ObjectCode) -> None:
        with global_compiler_lock:
            self._codegen = _Codegen(code.target)
            self._library = self._codegen.create_library(_NAME)
            self._library.load_object(code.data)

    def address(self, symbol: str) -> int:
        """The address of a function or of a global variable."""
        with global_compiler_lock:
            address = int(self._codegen.engine.get_global_value_address(symbol))
        if not address:
            raise BuildError("symbol not found", symbol)
        return address


def _hold_compilers() -> None:
    """Wait until no thread is inside Numba's compiler or LLVM, and keep others out: a forked child gets their state as
    it is, with whatever another thread was changing, and locks that nobody is left to release.
    """
    global_compiler_lock.acquire()
    llvm.ffi.lib._lock.__enter__()  # noqa: SLF001 -- llvmlite's own, which each of its calls takes


def _let_compilers_go() -> None:
    llvm.ffi.lib._lock.__exit__(None, None, None)  # noqa: SLF001
    global_compiler_lock.release()


guards.add(_hold_compilers, _let_compilers_go)
