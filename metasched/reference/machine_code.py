"""Machine code of the reference, made by LLVM of a module's text and loaded into this process.

Importing this imports llvmlite: what compiles does, when it first has to.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from metasched.support.forks import guards

# What LLVM calls its second level, which vectorises loops.
_OPT_LEVEL = 3

# A forked child gets the state of LLVM as it is: a fork waits for what another thread compiles.
_COMPILE_LOCK = threading.RLock()
guards.add(_COMPILE_LOCK.acquire, _COMPILE_LOCK.release)


class LoadedFunction:
    """A function of pointers that gives an integer. Its code is freed with it."""

    def __init__(self, text: str, name: str, arguments: int) -> None:
        with _COMPILE_LOCK:
            self._engine = _load_engine(text)
            address = self._engine.get_function_address(name)
        signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * arguments)
        self._function: Callable[..., int] = signature(address)

    def __call__(self, *addresses: int) -> int:
        return self._function(*addresses)


def _load_engine(text: str) -> Any:
    """An engine that holds the code of a module for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        llvm.get_host_cpu_name(), features, opt=_OPT_LEVEL, jit=True
    )
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, _options())
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _options() -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=_OPT_LEVEL)
    options.loop_vectorization = True
    return options
