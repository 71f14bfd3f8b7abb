"""Machine code: LLVM's code generator as Numba uses it, for any target and with a light pipeline of passes.

Emission leaves little to LLVM's middle end: vectors, unrolling, hoisting and common subexpressions are done. So the
pipeline is short, and a module goes from text to machine code without being linked or loaded. Each kernel that is
loaded has an execution engine of its own, so its code is freed with it; Numba's usual generator keeps every module for
the life of the process.

Importing this imports llvmlite: what compiles and loads does, when it first has to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from metasched.compiler.cpu.undefined_symbols import undefined_symbols
from metasched.errors import BuildError
from metasched.support.compile_lock import COMPILE_LOCK
from metasched.support.data_classes import dataclass
from metasched.target import Target

# What LLVM calls its highest level: of what it chooses in instructions, as passes are ours.
_OPT_LEVEL = 3


def _new_machine(target: Target) -> Any:
    """LLVM's code generator for a target; an engine owns the one that it is made with."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    found = llvm.Target.from_triple(llvm.get_process_triple())
    return found.create_target_machine(
        target.name,
        target.llvm_features(),
        opt=_OPT_LEVEL,
        reloc="static" if found.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


@lru_cache(maxsize=8)
def _shared_machine(target: Target) -> Any:
    """The code generator that all kernels of a target share; no code is loaded by it."""
    return _new_machine(target)


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
        with COMPILE_LOCK:
            return str(_optimize_text(self.text, _shared_machine(self.target)))


def compile_text(text: str, target: Target) -> ObjectCode:
    """Compile a module; raises BuildError when LLVM does not take it."""
    with COMPILE_LOCK:
        machine = _shared_machine(target)
        return ObjectCode(target, bytes(machine.emit_object(_optimize_text(text, machine))), text)


def _optimize_text(text: str, machine: Any) -> Any:
    """The module of a text after the passes; raises BuildError when LLVM does not take it."""
    try:
        # In LLVM's global context, which outlives all: of objects that die together, Python frees any first.
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise BuildError("LLVM rejected the module", str(error)) from error
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    _run_passes(module, machine)
    module.verify()
    return module


def assembly(code: ObjectCode) -> str:
    """Compiled code as assembly text."""
    return _emit_assembly(code, comments=False)


def commented_assembly(code: ObjectCode) -> str:
    """Compiled code as assembly text, with LLVM's comments on loops and on what it spills."""
    return _emit_assembly(code, comments=True)


def _emit_assembly(code: ObjectCode, *, comments: bool) -> str:
    with COMPILE_LOCK:
        machine = _shared_machine(code.target)
        machine.set_asm_verbosity(comments)
        return str(machine.emit_assembly(_optimize_text(code.text, machine)))


class LoadedCode:
    """Object code in memory, ready to run. It is freed with this object.

    Raises BuildError where the code calls what this process does not have: LLVM would put address 0 in its place.
    """

    def __init__(self, code: ObjectCode) -> None:
        with COMPILE_LOCK:
            # An engine needs a module. This one is never compiled: what is looked up is found in the object code.
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_machine(code.target))
            # Making the first engine has symbols of the process found.
            absent = [name for name in undefined_symbols(code.data) if not llvm.address_of_symbol(name)]
            if absent:
                raise BuildError("LLVM calls a library that is not there", ", ".join(absent))
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code.data))

    def address(self, symbol: str) -> int:
        """The address of a function or of a global variable."""
        with COMPILE_LOCK:
            address = int(self._engine.get_global_value_address(symbol))
        if not address:
            raise BuildError("symbol not found", symbol)
        return address
