"""Kernels inside `@njit` code.

The kernel is called at its address, which is only known in this process: Numba sees a dynamic global and declines to
cache the caller. The caller's compiled library keeps the kernel's code alive, as long as any caller lives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numba
from numba.extending import intrinsic

from metasched.compiler.cpu.emit import runtime
from metasched.errors import KernelError
from metasched.runtime import threads
from metasched.runtime.compiled import CompiledKernel, KernelArgument
from metasched.support.amx_permission import NO_TILES
from metasched.support.messages import counted, with_hint
from metasched.support.numba_internals import BaseTuple, TypingError, cgutils, empty_array, from_dtype, ir, types

_WRONG_SHAPE = 100
_OVERLAP = 101


def _type_of(p: KernelArgument) -> Any:
    # Numba has no arrays of the types of storage: in compiled code they are their bits.
    element = from_dtype(p.dtype.bit_pattern if p.dtype.is_storage else p.dtype.numpy)
    return element if p.shape is None else types.Array(element, len(p.shape), "C")


def _check_types(name: str, parameters: tuple[KernelArgument, ...], given: tuple[Any, ...]) -> None:
    expected = ", ".join(map(str, parameters))
    if len(given) != len(parameters):
        raise TypingError(f"`{name}` takes {counted(len(parameters), 'argument')} ({expected}), not {len(given)}")
    for p, type_ in zip(parameters, given, strict=True):
        if p.shape is None:
            if not isinstance(type_, types.Number | types.Boolean):
                raise TypingError(f"`{name}`: `{p.name}` is {type_}; it takes a scalar {p.dtype}")
            continue
        want = _type_of(p)
        if not isinstance(type_, types.Array) or type_.dtype != want.dtype or type_.ndim != want.ndim:
            bits = f" as its bits, `{p.name}.view(numpy.{p.dtype.bit_pattern})`" if p.dtype.is_storage else ""
            raise TypingError(f"`{name}`: `{p.name}` is {type_}; it takes {p}{bits}")
        if type_.layout != "C":
            raise TypingError(
                with_hint(
                    f"`{name}`: `{p.name}` is not known to be C-contiguous",
                    f"pass `numpy.ascontiguousarray({p.name})`",
                )
            )
        if p.is_output and not type_.mutable:
            raise TypingError(f"`{name}`: `{p.name}` is read-only, and the kernel writes it")


def _invoker(kernel: CompiledKernel) -> Any:
    """An intrinsic taking a tuple of all arguments and returning a status."""
    parameters = kernel.parameters

    @intrinsic  # type: ignore[untyped-decorator]
    def invoke(_context: Any, arguments: Any) -> Any:
        _check_types(kernel.binary.name, parameters, tuple(arguments))
        if kernel.binary.parallel:
            threads.state.launch_numba()
        return types.int32(arguments), codegen

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = signature.args[0]
        values = cgutils.unpack_tuple(builder, args[0])
        status = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(32), 0))
        operands: list[Any] = []
        extents: list[tuple[Any, Any] | None] = []
        for p, type_, value in zip(parameters, given, values, strict=True):
            if p.shape is None:
                operands.append(context.cast(builder, value, type_, _type_of(p)))
                extents.append(None)
                continue
            array = context.make_array(type_)(context, builder, value)
            for n, extent in enumerate(p.shape):
                found = builder.extract_value(array.shape, n)
                wrong = builder.icmp_signed("!=", found, ir.Constant(found.type, extent))
                with builder.if_then(wrong):
                    builder.store(ir.Constant(ir.IntType(32), _WRONG_SHAPE), status)
            operands.append(builder.bitcast(array.data, cgutils.voidptr_t))
            extents.append(_byte_interval(builder, array.data, p))
        _flag_overlaps(builder, parameters, extents, status)
        with builder.if_then(builder.icmp_signed("==", builder.load(status), ir.Constant(ir.IntType(32), 0))):
            builder.store(_emit_call(context, builder, kernel, operands), status)
        weakref.finalize(context.active_code_library, _hold_kernel, kernel)
        return builder.load(status)

    return invoke


def _byte_interval(builder: Any, data: Any, p: KernelArgument) -> tuple[Any, Any]:
    size = p.dtype.bytes
    for extent in p.shape or ():
        size *= extent
    start = builder.ptrtoint(data, cgutils.intp_t)
    return start, builder.add(start, ir.Constant(cgutils.intp_t, size))


def _flag_overlaps(
    builder: Any, parameters: tuple[KernelArgument, ...], intervals: Sequence[tuple[Any, Any] | None], status: Any
) -> None:
    for n, output in enumerate(parameters):
        for m, interval in enumerate(intervals):
            if not output.is_output or m == n or interval is None or (parameters[m].is_output and m > n):
                continue
            own = intervals[n]
            assert own is not None
            start, stop = own
            meets = builder.and_(
                builder.icmp_unsigned("<", interval[0], stop), builder.icmp_unsigned("<", start, interval[1])
            )
            with builder.if_then(meets):
                builder.store(ir.Constant(ir.IntType(32), _OVERLAP), status)


def _emit_call(context: Any, builder: Any, kernel: CompiledKernel, operands: list[Any]) -> Any:
    values = []
    for p, operand in zip(kernel.parameters, operands, strict=True):
        is_bit = p.shape is None and p.dtype.is_bool and operand.type == ir.IntType(1)
        values.append(builder.zext(operand, ir.IntType(8)) if is_bit else operand)
    values.append(ir.Constant(cgutils.voidptr_t, None))
    function_type = ir.FunctionType(ir.IntType(32), [value.type for value in values])
    address = context.add_dynamic_addr(builder, kernel.address, info=kernel.binary.name)
    return builder.call(builder.bitcast(address, function_type.as_pointer()), values)


def _hold_kernel(_kernel: CompiledKernel) -> None:
    """Called when a caller's library goes: until then, the finalizer holds the kernel."""


def _allocator(outputs: tuple[KernelArgument, ...]) -> Any:
    """An intrinsic returning a tuple of new output arrays."""
    kinds = [_type_of(p) for p in outputs]

    @intrinsic  # type: ignore[untyped-decorator]
    def allocate(_context: Any) -> Any:
        return BaseTuple.from_types(kinds)(), codegen

    def codegen(context: Any, builder: Any, signature: Any, _args: Any) -> Any:
        values = []
        for p, kind in zip(outputs, kinds, strict=True):
            shape = [ir.Constant(cgutils.intp_t, extent) for extent in p.shape or ()]
            values.append(empty_array(context, builder, kind, shape))
        return context.make_tuple(builder, signature.return_type, values)

    return allocate


def into_form(kernel: CompiledKernel) -> Callable[..., None]:
    """`f(*inputs, *outputs)` for `@njit` code and for Python."""
    invoke = _invoker(kernel)
    check = _checker(kernel)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def numba_into(*arguments: Any) -> None:
        check(invoke(arguments))

    return numba_into  # type: ignore[no-any-return]


def allocating_form(kernel: CompiledKernel) -> Callable[..., Any]:
    """`f(*inputs) -> output`, or a tuple of several, for `@njit` code and for Python."""
    outputs = tuple(p for p in kernel.parameters if p.is_output)
    invoke, allocate, check = _invoker(kernel), _allocator(outputs), _checker(kernel)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def numba_single(*arguments: Any) -> Any:
        results = allocate()
        check(invoke(arguments + results))
        return results[0]

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def numba_several(*arguments: Any) -> Any:
        results = allocate()
        check(invoke(arguments + results))
        return results

    return numba_single if len(outputs) == 1 else numba_several  # type: ignore[no-any-return]


def _checker(kernel: CompiledKernel) -> Callable[[int], None]:
    """Raises the KernelError of a status, in compiled code."""
    name = kernel.binary.name
    shapes = (
        f"`{name}`: an argument has another shape than this kernel was compiled for: "
        f"{', '.join(map(str, kernel.parameters))}"
    )
    overlap = f"`{name}`: an output overlaps another argument. Pass separate memory"
    failed = f"`{name}`: no memory for a workspace of {kernel.workspace_bytes} bytes"
    tiles_status = int(runtime.Status.NO_TILES)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def check(status: int) -> None:
        if status == 0:
            return
        if status == _WRONG_SHAPE:
            raise KernelError(shapes)
        if status == _OVERLAP:
            raise KernelError(overlap)
        if status == tiles_status:
            raise KernelError(NO_TILES)
        raise KernelError(failed)

    return check  # type: ignore[no-any-return]
