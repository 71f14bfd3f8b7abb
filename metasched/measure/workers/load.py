"""Machine code that another process compiled, called and timed here.

The clock is read in compiled code, around a loop of calls: `metasched_repeat(kernel, arguments, workspace, calls,
elapsed)` unpacks the arguments (one slot of eight bytes each), calls the kernel `calls` times, stores the nanoseconds
of CLOCK_MONOTONIC that passed, and returns the kernel's statuses or-ed together. Nothing of Python is inside.
`metasched_rotate` does the same over several rows of arguments, a row a call, beginning with the row `first`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from metasched.compiler.cpu.codegen import LoadedCode, ObjectCode, compile_text
from metasched.compiler.cpu.emit.runtime import STATE
from metasched.compiler.cpu.emit.types import memory_text
from metasched.dtypes import DType
from metasched.measure.records import Artefact
from metasched.runtime.threads import state
from metasched.target import Target

# LLVM's types of a kernel's arguments, in calling order.
Types = tuple[str, ...]

_REPEAT = "metasched_repeat"
_ROTATE = "metasched_rotate"
_CLOCK_MONOTONIC = 1
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
)
_ROTATING = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p),
    *(ctypes.c_int64, ctypes.c_int64),
)


class LoadedKernel:
    """A kernel in memory, bound to its arguments. Its code is freed with this object."""

    def __init__(self, artefact: Artefact, data: bytes) -> None:
        target = Target.parse(artefact.target)
        self._code = LoadedCode(ObjectCode(target, data, ""))
        if artefact.parallel:
            state.load()
        ctypes.c_void_p.from_address(self._code.address(STATE)).value = state.address
        self._entry = self._code.address(artefact.entry)
        self._scalars = artefact.scalars

    def bind(self, addresses: Sequence[int], workspace: int) -> BoundKernel:
        """The kernel on these buffers (and places of scalars), in calling order, and this workspace."""
        slots = (ctypes.c_uint64 * len(addresses))(*addresses)
        types = ["ptr"] * len(addresses)
        for position, name in self._scalars:
            dtype = DType(name)
            types[position] = memory_text(dtype)
            slots[position] = 0
            ctypes.memmove(ctypes.byref(slots, 8 * position), addresses[position], dtype.bytes)
        return BoundKernel(self, self._entry, slots, workspace, tuple(types))


class BoundKernel:
    """A kernel on its buffers."""

    def __init__(
        self, owner: LoadedKernel, entry: int, slots: ctypes.Array[ctypes.c_uint64], workspace: int, types: Types
    ) -> None:
        self._owner = owner
        self._entry = entry
        self._slots = slots
        self._workspace = workspace
        self._types = types
        self._repeat = _repeater(types)
        self.status = 0

    def run(self, calls: int) -> float:
        """Call it `calls` times in a row; the seconds they took. `status` gathers what the calls returned."""
        elapsed = ctypes.c_int64()
        self.status |= self._repeat.function(
            self._entry, ctypes.addressof(self._slots), self._workspace, calls, ctypes.addressof(elapsed)
        )
        return elapsed.value * 1e-9

    def rotate_arguments(self, others: Sequence[Mapping[int, int]]) -> Callable[[int], float]:
        """`run`, with other addresses for some arguments in one call after another.

        Each of `others` has them by position; the first call after them is on the buffers that it is bound to.
        """
        width, count = len(self._slots), 1 + len(others)
        rows = (ctypes.c_uint64 * (width * count))(*self._slots, *([0] * (width * len(others))))
        for number, addresses in enumerate(others, start=1):
            rows[number * width : (number + 1) * width] = [addresses.get(n, slot) for n, slot in enumerate(self._slots)]
        rotate, place = _rotator(self._types), 0

        def run(calls: int) -> float:
            nonlocal place
            elapsed = ctypes.c_int64()
            at, end = ctypes.addressof(rows), ctypes.addressof(elapsed)
            self.status |= rotate.function(self._entry, at, self._workspace, calls, end, place, count)
            place = (place + calls) % count
            return elapsed.value * 1e-9

        return run


class _CallingLoop:
    """A loop of calls in memory, for kernels of one calling convention; its code is freed with this object."""

    def __init__(self, text: str, name: str, prototype: Callable[[int], Callable[..., int]]) -> None:
        self._code = LoadedCode(compile_text(text, Target.detect()))
        self.function = prototype(self._code.address(name))


@lru_cache(maxsize=64)
def _repeater(types: Types) -> _CallingLoop:
    return _CallingLoop(_repeat_text(types), _REPEAT, _PROTOTYPE)


@lru_cache(maxsize=64)
def _rotator(types: Types) -> _CallingLoop:
    return _CallingLoop(_rotate_text(types), _ROTATE, _ROTATING)


_CLOCK = f"""\
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() noinline nounwind {{
  %time = alloca [2 x i64]
  %unused = call i32 @clock_gettime(i32 {_CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}
"""


def _repeat_text(types: Types) -> str:
    loads, passed = _unpack_row(types, "%arguments")
    return f"""\
{_CLOCK}
define i32 @{_REPEAT}(ptr %kernel, ptr %arguments, ptr %workspace, i64 %calls, ptr %elapsed) nounwind {{
entry:
{loads}
  %start = call i64 @now()
  br label %again
again:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %all = phi i32 [ 0, %entry ], [ %now.all, %again ]
  %status = call i32 %kernel({passed})
  %now.all = or i32 %all, %status
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %calls
  br i1 %more, label %again, label %done
done:
  %stop = call i64 @now()
  %spent = sub i64 %stop, %start
  store i64 %spent, ptr %elapsed
  ret i32 %now.all
}}
"""


def _rotate_text(types: Types) -> str:
    loads, passed = _unpack_row(types, "%row")
    return f"""\
{_CLOCK}
define i32 @{_ROTATE}(
  ptr %kernel, ptr %rows, ptr %workspace, i64 %calls, ptr %elapsed, i64 %first, i64 %count
) nounwind {{
entry:
  %start = call i64 @now()
  br label %again
again:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %place = phi i64 [ %first, %entry ], [ %next.place, %again ]
  %all = phi i32 [ 0, %entry ], [ %now.all, %again ]
  %slots = mul i64 %place, {len(types)}
  %row = getelementptr i64, ptr %rows, i64 %slots
{loads}
  %status = call i32 %kernel({passed})
  %now.all = or i32 %all, %status
  %place.one = add i64 %place, 1
  %wraps = icmp sge i64 %place.one, %count
  %next.place = select i1 %wraps, i64 0, i64 %place.one
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %calls
  br i1 %more, label %again, label %done
done:
  %stop = call i64 @now()
  %spent = sub i64 %stop, %start
  store i64 %spent, ptr %elapsed
  ret i32 %now.all
}}
"""


def _unpack_row(types: Types, row: str) -> tuple[str, str]:
    """Lines that load the arguments from the slots of a row, and the arguments of the call."""
    lines = []
    for n, text in enumerate(types):
        lines.append(f"  %at.{n} = getelementptr i64, ptr {row}, i64 {n}")
        lines.append(f"  %argument.{n} = load {text}, ptr %at.{n}, align 8")
    passed = ", ".join([*(f"{text} %argument.{n}" for n, text in enumerate(types)), "ptr %workspace"])
    return "\n".join(lines), passed
