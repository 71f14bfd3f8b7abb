"""Machine code of the reference, made by LLVM of a module's text and loaded into this process.

Importing this imports llvmlite: what compiles does, when it first has to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum
from typing import Any

import llvmlite.binding as llvm

from metasched.support.compile_lock import COMPILE_LOCK


class Optimisation(Enum):
    """How much LLVM does for the code: its numbers of levels. Results are the same."""

    NONE = 0  # a twentieth of the time
    FULL = 3  # it vectorises loops


class LoadedFunction:
    """A function of pointers that gives an integer. Its code is freed with it."""

    def __init__(self, text: str, name: str, arguments: int, optimisation: Optimisation = Optimisation.FULL) -> None:
        with COMPILE_LOCK:
            self._engine = _load_engine(text, optimisation)
            address = self._engine.get_function_address(name)
        signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * arguments)
        self._function: Callable[..., int] = signature(address)

    def __call__(self, *addresses: int) -> int:
        return self._function(*addresses)


def _load_engine(text: str, optimisation: Optimisation) -> Any:
    """An engine that holds the code of a module for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        llvm.get_host_cpu_name(), features, opt=optimisation.value, jit=True
    )
    # In LLVM's global context, which outlives all: of objects that die together, Python frees any first.
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, _options(optimisation))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _options(optimisation: Optimisation) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=optimisation.value)
    options.loop_vectorization = True
    return options
