"""A second entry that takes NumPy arrays as they are: it checks their headers, and calls the kernel with their data.

Reading a header takes nanoseconds here, and half a microsecond an array from Python. Anything else than the plain
case gives `Status.NOT_PLAIN`; the caller then checks in Python, which has the error messages.

The header is `PyArrayObject` of NumPy's C API, whose layout is part of its ABI: data, number of dimensions, dimensions,
strides, base, descriptor, flags, after what every object starts with.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import NamedTuple

from metasched.compiler.cpu.emit.runtime import Status
from metasched.compiler.cpu.emit.types import memory_text
from metasched.dtypes import DType

ENTRY = "metasched_python"
# The array type, then a descriptor for each argument: filled in when the code is loaded.
KNOWN_TYPES = "metasched_python_known"

# It takes nanoseconds either way, and LLVM would take as long for it as for a small kernel.
_UNOPTIMISED = "noinline optnone"


class Flag(IntFlag):
    """NumPy's array flags."""

    C_CONTIGUOUS = 0x1
    ALIGNED = 0x100
    WRITEABLE = 0x400


class EntryArgument(NamedTuple):
    """An argument of the kernel; a scalar has no shape and is passed as a number."""

    dtype: DType
    shape: tuple[int, ...] | None
    is_output: bool

    @property
    def bytes(self) -> int:
        size = self.dtype.bytes
        for extent in self.shape or ():
            size *= extent
        return size


def python_entry(arguments: Sequence[EntryArgument], entry: str, header: int) -> str:
    """LLVM text of the entry: `header` is the size of what every Python object starts with, in bytes."""
    return _Writer(arguments, entry, header).text()


class _Writer:
    def __init__(self, arguments: Sequence[EntryArgument], entry: str, header: int) -> None:
        self._arguments = arguments
        self._entry = entry
        self._header = header
        self._lines: list[str] = []
        self._checks = 0

    def text(self) -> str:
        arrays = [n for n, a in enumerate(self._arguments) if a.shape is not None]
        for n in arrays:
            self._check_array(n, self._arguments[n])
        for n in arrays:
            if self._arguments[n].is_output:
                for m in arrays:
                    # Two outputs are compared once.
                    if m != n and (m < n or not self._arguments[m].is_output):
                        self._check_overlap(n, m)
        parameters = ", ".join(
            f"ptr %o{n}" if a.shape is not None else f"{memory_text(a.dtype)} %o{n}"
            for n, a in enumerate(self._arguments)
        )
        values = ", ".join(
            f"ptr %data{n}" if a.shape is not None else f"{memory_text(a.dtype)} %o{n}"
            for n, a in enumerate(self._arguments)
        )
        body = "\n".join(self._lines)
        return f"""\
@{KNOWN_TYPES} = global [{len(self._arguments) + 1} x ptr] zeroinitializer

define i32 @{ENTRY}({parameters}) {_UNOPTIMISED} nounwind {{
  %type = load ptr, ptr @{KNOWN_TYPES}
{body}
  %status = call i32 @{self._entry}({values}, ptr null)
  ret i32 %status
refused:
  ret i32 {int(Status.NOT_PLAIN)}
}}
"""

    def _check_array(self, n: int, argument: EntryArgument) -> None:
        assert argument.shape is not None
        header = self._header
        self._load_field(n, "type", header - 8, "ptr")
        self._require(f"eq ptr %type{n}, %type")
        self._lines.append(f"  %known{n}.at = getelementptr ptr, ptr @{KNOWN_TYPES}, i64 {n + 1}")
        self._lines.append(f"  %known{n} = load ptr, ptr %known{n}.at")
        self._load_field(n, "descriptor", header + 40, "ptr")
        self._require(f"eq ptr %descriptor{n}, %known{n}")
        self._load_field(n, "flags", header + 48, "i32")
        wanted = Flag.C_CONTIGUOUS | Flag.ALIGNED | (Flag.WRITEABLE if argument.is_output else Flag(0))
        self._lines.append(f"  %set{n} = and i32 %flags{n}, {int(wanted)}")
        self._require(f"eq i32 %set{n}, {int(wanted)}")
        self._load_field(n, "rank", header + 8, "i32")
        self._require(f"eq i32 %rank{n}, {len(argument.shape)}")
        self._load_field(n, "dimensions", header + 16, "ptr")
        for axis, extent in enumerate(argument.shape):
            place, value = f"%extent{n}.{axis}.at", f"%extent{n}.{axis}"
            self._lines.append(f"  {place} = getelementptr i64, ptr %dimensions{n}, i64 {axis}")
            self._lines.append(f"  {value} = load i64, ptr {place}")
            self._require(f"eq i64 {value}, {extent}")
        self._load_field(n, "data", header, "ptr")

    def _load_field(self, n: int, name: str, offset: int, type_: str) -> None:
        self._lines.append(f"  %{name}{n}.at = getelementptr i8, ptr %o{n}, i64 {offset}")
        self._lines.append(f"  %{name}{n} = load {type_}, ptr %{name}{n}.at")

    def _check_overlap(self, n: int, m: int) -> None:
        """Whether two arrays share no memory: one ends where the other starts, or before."""
        name = f"{n}.{m}"
        for a, b in ((n, m), (m, n)):
            self._lines.append(f"  %end{a}.{b} = getelementptr i8, ptr %data{a}, i64 {self._arguments[a].bytes}")
            self._lines.append(f"  %before{a}.{b} = icmp ule ptr %end{a}.{b}, %data{b}")
        self._lines.append(f"  %apart{name} = or i1 %before{n}.{m}, %before{m}.{n}")
        self._branch_to_next(f"%apart{name}")

    def _require(self, comparison: str) -> None:
        name = f"%holds{self._checks}"
        self._lines.append(f"  {name} = icmp {comparison}")
        self._branch_to_next(name)

    def _branch_to_next(self, cond: str) -> None:
        self._lines.append(f"  br i1 {cond}, label %checked{self._checks}, label %refused")
        self._lines.append(f"checked{self._checks}:")
        self._checks += 1
