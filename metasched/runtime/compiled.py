"""A compiled kernel: object code that can travel between processes, and the same loaded and callable.

This is the raw form. It trusts its arguments; `metasched.runtime.kernel.Kernel` checks them first.
"""

from __future__ import annotations

import ctypes
import logging
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.cpu.emit.python_entry import ENTRY as PYTHON_ENTRY
from metasched.compiler.cpu.emit.python_entry import KNOWN_TYPES, EntryArgument, python_entry
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.compiler.lir import LoopProgram
from metasched.compiler.lower import lower
from metasched.compiler.lower.layouts import memory_shape
from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Buffer, Func
from metasched.runtime import threads
from metasched.runtime.addresses import data_pointer
from metasched.runtime.machine_check import lacking_here, refusal
from metasched.support.amx_permission import NO_TILES
from metasched.support.collection import pause_gc
from metasched.support.data_classes import dataclass
from metasched.target import Target

if TYPE_CHECKING:  # it imports Numba
    from metasched.compiler.cpu.codegen import LoadedCode, ObjectCode

LOGGER = logging.getLogger(__name__)

_POINTER = ctypes.c_void_p


@dataclass(frozen=True)
class KernelArgument:
    """An argument of a kernel; a scalar has no shape. One that others are indexed by holds values in [0, `below`)."""

    name: str
    dtype: DType
    shape: tuple[int, ...] | None
    is_output: bool
    below: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}" + (f"[{', '.join(map(str, self.shape))}]" if self.shape is not None else "")

    @property
    def ctype(self) -> Any:
        return self.dtype.ctypes if self.shape is None else _POINTER


@dataclass(frozen=True)
class KernelCode:
    """A kernel compiled and not loaded: it can be pickled and loaded in another process.

    `parameters` are in calling order, outputs last. `workspace_bytes` is the memory for intermediates, all threads
    together. `warnings` are those of lowering.
    """

    name: str
    parameters: tuple[KernelArgument, ...]
    code: ObjectCode
    entry: str
    workspace_bytes: int
    parallel: bool
    warnings: tuple[str, ...] = ()


@pause_gc()
def compile_func(func: Func, target: Target) -> KernelCode:
    """Lower, emit and compile a concrete scheduled program; raises BuildError."""
    return compile_loops(lower(func, target), parameters_of(func), target)


def compile_loops(kernel: LoopProgram, parameters: tuple[KernelArgument, ...], target: Target) -> KernelCode:
    """Emit and compile a low-level loop program."""
    import_code_generator()
    from metasched.compiler.cpu.codegen import compile_text

    module = emit(kernel, target)
    arguments = [EntryArgument(p.dtype, p.shape, p.is_output) for p in parameters]
    code = compile_text(module.text + python_entry(arguments, module.entry, object.__basicsize__), target)
    return KernelCode(
        kernel.name, parameters, code, module.entry, module.workspace_bytes, module.parallel, kernel.warnings
    )


def build(func: Func, target: Target) -> CompiledKernel:
    """Compile a concrete scheduled program and load it; raises BuildError."""
    start = time.perf_counter()
    code = compile_func(func, target)
    LOGGER.debug("compiled %s in %.0f ms", code.name, (time.perf_counter() - start) * 1e3)
    return CompiledKernel(code)


def parameters_of(func: Func) -> tuple[KernelArgument, ...]:
    """The arguments of a program in calling order, outputs last."""
    inputs = {b.name: b for b in func.inputs}
    scalars = {s.name: s for s in func.scalars}
    given = [
        KernelArgument(
            name, inputs[name].dtype, memory_shape(inputs[name]), is_output=False, below=_index_limit(inputs[name])
        )
        if name in inputs
        else KernelArgument(name, scalars[name].dtype, None, is_output=False)
        for name in func.order
    ]
    return (*given, *(KernelArgument(b.name, b.dtype, memory_shape(b), is_output=True) for b in func.outputs))


def _index_limit(buffer: Buffer) -> int | None:
    return None if buffer.below is None else as_int(buffer.below)


class CompiledKernel:
    """Loaded machine code. It lives as long as this object, to which everything that may call it keeps a reference."""

    def __init__(self, binary: KernelCode) -> None:
        import_code_generator()
        from metasched.compiler.cpu.codegen import LoadedCode

        self.binary = binary
        self._code = LoadedCode(binary.code)
        slot = _POINTER.from_address(self._code.address(runtime.SLOT))
        weakref.finalize(self, _release, self._code, slot).atexit = False
        if binary.parallel:
            threads.state.load()
        _POINTER.from_address(self._code.address(runtime.STATE)).value = threads.state.address
        signature = ctypes.CFUNCTYPE(ctypes.c_int, *(p.ctype for p in binary.parameters), _POINTER)
        self.function: Callable[..., int] = signature(self._code.address(binary.entry))
        self.python_function = self._python_function()
        if lacking_here(self.target):
            self.function = self.python_function = partial(_refuse, self.target, binary.name)

    def _python_function(self) -> Callable[..., int]:
        """The entry that takes arrays: `Status.NOT_PLAIN` where they need the checks in Python."""
        parameters = self.binary.parameters
        # These objects are never freed, so their addresses stay what they are.
        known = [np.ndarray, *(p.dtype.numpy for p in parameters)]
        table = (_POINTER * len(known)).from_address(self._code.address(KNOWN_TYPES))
        table[:] = [id(item) for item in known]
        kinds = (p.ctype if p.shape is None else ctypes.py_object for p in parameters)
        function: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self._code.address(PYTHON_ENTRY))
        return function

    @property
    def address(self) -> int:
        """Where the kernel's code begins. Raises KernelError on a machine that lacks instructions of its target."""
        if lacking_here(self.target):
            _refuse(self.target, self.binary.name)
        return self._code.address(self.binary.entry)

    @property
    def parameters(self) -> tuple[KernelArgument, ...]:
        return self.binary.parameters

    @property
    def target(self) -> Target:
        return self.binary.code.target

    @property
    def workspace_bytes(self) -> int:
        return self.binary.workspace_bytes

    @property
    def llvm(self) -> str:
        """The optimised LLVM module."""
        return self.binary.code.llvm

    @property
    def asm(self) -> str:
        """The assembly."""
        import_code_generator()
        from metasched.compiler.cpu.codegen import assembly

        return assembly(self.binary.code)

    def symbol(self, name: str) -> int:
        """The address of a function or a variable of the module. Raises BuildError for one that is not there."""
        return self._code.address(name)

    def prepare(self) -> None:
        """Have a parallel kernel use as many threads as Numba has."""
        if self.binary.parallel:
            threads.state.follow_numba()

    def __call__(self, *arguments: Any, workspace: np.ndarray[Any, Any] | None = None) -> None:
        """Run on arrays and scalars in calling order, outputs included. Nothing is checked.

        `workspace` is memory for intermediates: `workspace_bytes` of uint8, aligned to 64; the kernel has its own
        otherwise.
        """
        self.bind(*arguments, workspace=workspace)()

    def bind(self, *arguments: Any, workspace: np.ndarray[Any, Any] | None = None) -> Callable[[], None]:
        """The kernel with its arguments converted once, to be called many times. Holds on to its arguments."""
        self.prepare()
        function = self.function
        values = [
            value if p.shape is None else data_pointer(value)
            for value, p in zip(arguments, self.parameters, strict=True)
        ]
        place = None if workspace is None else data_pointer(workspace)

        def call(_keep: object = (arguments, workspace, self)) -> None:
            status = function(*values, place)
            if status:
                raise_status(status, self.workspace_bytes)

        return call


def _refuse(target: Target, name: str, *_: object) -> NoReturn:
    raise refusal(target, f"`{name}`", "compile it for this machine: `ms.compile(program)`, or with its `trace`")


def _release(code: LoadedCode, slot: ctypes.c_void_p) -> None:
    """Free the workspace that a kernel kept for its next call. `code` holds the slot, and goes after this."""
    if slot.value:
        free = ctypes.CDLL(None).free
        free.argtypes = [_POINTER]
        free.restype = None
        free(slot.value)


def raise_status(status: int, workspace_bytes: int) -> None:
    """Raise the KernelError of a status that is not OK."""
    if status == runtime.Status.NO_TILES:
        raise KernelError(NO_TILES)
    if status == runtime.Status.NO_MEMORY:
        raise KernelError(f"no memory for a workspace of {workspace_bytes} bytes")
    raise KernelError(f"the kernel returned an unknown status {status}")
