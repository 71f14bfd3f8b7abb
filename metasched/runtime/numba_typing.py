"""`kernel(A, B)` and `kernel.numba(A, B)` inside `@njit` code: what Numba knows of a `Kernel` that it meets there as a
global, in a closure, or as an argument.

A kernel's type is its identity, so the call is resolved when the caller is compiled, and costs what the form itself
costs.

This is imported where Numba asks a kernel for its type: in the middle of what it compiles, so it has to be told that
there is something new. Its compiler's lock is held then, so no other thread may be waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numba.extending import NativeValue, overload_method, register_model, unbox
from numba.extending import models as numba_models

from metasched.support.numba_internals import VarArg, ir, lower_builtin, lower_constant, refresh_registries, types


class NumbaCallable(Protocol):
    """What Numba's types know of a kernel: `metasched.runtime.callable_kernel.CallableKernel`."""

    @property
    def name(self) -> str: ...
    @property
    def numba(self) -> Callable[..., Any]: ...
    @property
    def numba_into(self) -> Callable[..., None]: ...


class KernelType(types.Opaque):
    """The type of one kernel."""

    def __init__(self, kernel: NumbaCallable) -> None:
        self.kernel = kernel
        super().__init__(f"Kernel({kernel.name}, {id(kernel):#x})")


register_model(KernelType)(numba_models.OpaqueModel)


@lower_constant(KernelType)  # type: ignore[untyped-decorator]
def _kernel_constant(context: Any, _builder: Any, _type: KernelType, _value: NumbaCallable) -> Any:
    return context.get_dummy_value()


@unbox(KernelType)  # type: ignore[untyped-decorator]
def _unbox(_type: KernelType, _object: Any, context: Any) -> Any:
    return NativeValue(ir.Constant(ir.IntType(8).as_pointer(), None))


@overload_method(KernelType, "__call__")  # type: ignore[untyped-decorator]
def _call_method(kernel: Any, *arguments: Any) -> Any:
    return _allocating_call(kernel, *arguments)


@lower_builtin(KernelType, VarArg(types.Any))  # type: ignore[untyped-decorator]
def _lower_call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Numba types `kernel(A)` as its method `__call__`, and looks for the code under the type of what is called."""
    method = context.typing_context.resolve_getattr(signature.args[0], "__call__")
    return context.get_function(method, signature)(builder, arguments)


@overload_method(KernelType, "numba")  # type: ignore[untyped-decorator]
def _allocating_call(kernel: Any, *arguments: Any) -> Any:
    form = kernel.kernel.numba

    def call(kernel: Any, *arguments: Any) -> Any:
        return form(*arguments)

    return call


@overload_method(KernelType, "numba_into")  # type: ignore[untyped-decorator]
def _call_into_outputs(kernel: Any, *arguments: Any) -> Any:
    form = kernel.kernel.numba_into

    def call(kernel: Any, *arguments: Any) -> Any:
        return form(*arguments)

    return call


refresh_registries()
