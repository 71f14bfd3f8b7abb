"""Machine code: Numba's code generator, for any target and with a light pipeline of passes.

Emission leaves little to LLVM's middle end: vectors, unrolling, hoisting and common subexpressions are done. So the
pipeline is short, and a module goes from text to machine code without being linked or loaded. Each kernel that is
loaded has an execution engine of its own, so its code is freed with it; Numba's usual generator keeps every module for
the life of the process.

Importing this imports Numba, which takes as long as the rest of metasched together: it is imported by what compiles
and loads, when it does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from metasched.errors import BuildError
from metasched.support.data_classes import dataclass
from metasched.support.forks import guards
from metasched.support.numba_internals import CodeGenerator, global_compiler_lock, hold_compilers, let_compilers_go
from metasched.target import Target

_LIBRARY_NAME = "metasched"


def _new_generator(target: Target) -> CodeGenerator:
    """A code generator for one kernel: each that is loaded has its own."""
    return CodeGenerator(target.name, target.llvm_features())


@lru_cache(maxsize=8)
def _shared_compiler(target: Target) -> CodeGenerator:
    """The code generator that all kernels of a target share; no code is loaded by it."""
    return _new_generator(target)


def _run_passes(module: Any, machine: Any) -> None:
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
    """Machine code as bytes, to be loaded in this process or another on the same kind of machine.

    `text` is the module that it was made of, where it is known.
    """

    target: Target
    data: bytes
    text: str

    @property
    def llvm(self) -> str:
        """The module as it went into code generation: worked out when it is asked for, which few do."""
        with global_compiler_lock:
            return str(_optimize_text(self.text, _shared_compiler(self.target)))


def compile_text(text: str, target: Target) -> ObjectCode:
    """Compile a module; raises BuildError when LLVM does not take it."""
    with global_compiler_lock:
        compiler = _shared_compiler(target)
        module = _optimize_text(text, compiler)
        return ObjectCode(target, bytes(compiler.target_machine.emit_object(module)), text)


def _optimize_text(text: str, compiler: CodeGenerator) -> Any:
    """The module of a text after the passes; raises BuildError when LLVM does not take it."""
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise BuildError("LLVM rejected the module", str(error)) from error
    module.triple = llvm.get_process_triple()
    module.data_layout = compiler.data_layout
    _run_passes(module, compiler.target_machine)
    module.verify()
    return module


def assembly(code: ObjectCode) -> str:
    """Compiled code as assembly text."""
    return _emit_assembly(code, comments=False)


def commented_assembly(code: ObjectCode) -> str:
    """Compiled code as assembly text, with LLVM's comments on loops and on what it spills."""
    return _emit_assembly(code, comments=True)


def _emit_assembly(code: ObjectCode, *, comments: bool) -> str:
    with global_compiler_lock:
        compiler = _shared_compiler(code.target)
        compiler.target_machine.set_asm_verbosity(comments)
        return str(compiler.target_machine.emit_assembly(_optimize_text(code.text, compiler)))


class LoadedCode:
    """Object code in memory, ready to run. It is freed with this object."""

    def __init__(self, code: ObjectCode) -> None:
        with global_compiler_lock:
            self._codegen = _new_generator(code.target)
            self._library = self._codegen.create_library(_LIBRARY_NAME)
            self._library.load_object(code.data)

    def address(self, symbol: str) -> int:
        """The address of a function or of a global variable."""
        with global_compiler_lock:
            address = int(self._codegen.engine.get_global_value_address(symbol))
        if not address:
            raise BuildError("symbol not found", symbol)
        return address


# A forked child gets the state of Numba's compiler and of LLVM as it is, with whatever another thread was changing, and
# locks that nobody is left to release: so a fork waits for both.
guards.add(hold_compilers, let_compilers_go)
