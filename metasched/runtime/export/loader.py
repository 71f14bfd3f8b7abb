"""A compiled kernel that runs with NumPy alone: this file loads the machine code that it carries, and calls it.

It needs Linux on x86-64 and the instruction sets that the code was compiled for. A call takes C-contiguous arrays of
the shapes and dtypes in `PARAMETERS`, in their order or by name, and returns a new array, or a tuple of them. What it
cannot take is a TypeError or a ValueError, an index outside of what it indexes too. For types that NumPy lacks, such as
bfloat16, it needs ml_dtypes.
"""

from __future__ import annotations

import base64
import ctypes
import mmap
import operator
import platform
import struct
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metasched.runtime.shared_pool import PoolCode, shared_pool

_PAGE = mmap.PAGESIZE
_ALLOCATED = 0x2
_EXECUTABLE = 0x4
_SECTION_WITHOUT_BITS = 8
_RELOCATIONS = 4
_SYMBOLS = 2
_ABSOLUTE_64_RELOCATION = 1
_NO_TILES_STATUS = 3
_Pointer = ctypes.c_void_p
# Instruction sets that the kernel does not tell, or not before a version that machines may not have yet: where the CPU
# tells them, as a subleaf of extended features, a register and a bit. Whether the system saves the vectors that they
# need is told by the sets that they build on, which code asks for, too.
_EXTENDED_FEATURES = 7
_UNTOLD = {
    "gfni": (0, 2, 8),
    "avx512vbmi": (0, 2, 1),
    "avx512_vbmi2": (0, 2, 6),
    "avx512_vnni": (0, 2, 11),
    "avx512_bitalg": (0, 2, 12),
    "avx512_vpopcntdq": (0, 2, 14),
    "avx512_fp16": (0, 3, 23),
    "avx_vnni": (1, 0, 4),
    "avx512_bf16": (1, 0, 5),
    "avx_ifma": (1, 0, 23),
}
# push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid; mov [r8], eax; mov [r8 + 4], ebx; mov [r8 + 8], ecx;
# mov [r8 + 12], edx; pop rbx; ret
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
_SCALARS = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "bool": ctypes.c_uint8,
}


class Image:
    """Machine code in memory, from an ELF object of the large code model, whose relocations are plain addresses."""

    def __init__(self, data: bytes) -> None:
        sections_at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        self._data = data
        self._sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + 64 * n) for n in range(count)]
        self._load_sections()
        self.symbols = self._read_symbols()
        self._relocate()
        self._protect()

    def _load_sections(self) -> None:
        """Every section that lives in memory on pages of its own kind: code, and data."""
        self._offsets: dict[int, int] = {}
        size = 0
        for executable in (True, False):
            size = -(-size // _PAGE) * _PAGE
            for n, section in enumerate(self._sections):
                flags, length, align = section[2], section[5], max(section[8], 1)
                if flags & _ALLOCATED and bool(flags & _EXECUTABLE) is executable:
                    size = -(-size // align) * align
                    self._offsets[n] = size
                    size += length
            if executable:
                self._code_size = -(-size // _PAGE) * _PAGE
        self.memory = _memory(size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for n, offset in self._offsets.items():
            kind, start, length = self._sections[n][1], self._sections[n][4], self._sections[n][5]
            if kind != _SECTION_WITHOUT_BITS:
                self.memory[offset : offset + length] = self._data[start : start + length]

    def _read_symbols(self) -> dict[str, int]:
        """Addresses by number, and by name for those defined here."""
        table = next(s for s in self._sections if s[1] == _SYMBOLS)
        names = self._sections[table[6]][4]
        found: dict[str, int] = {}
        self._addresses: list[int] = []
        for n in range(table[5] // 24):
            name_at, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self._data, table[4] + 24 * n)
            end = self._data.index(b"\0", names + name_at)
            name = self._data[names + name_at : end].decode()
            if section in self._offsets:
                address = self.base + self._offsets[section] + value
                found[name] = address
            else:
                address = _c_library_address(name) if name and not section else 0
            self._addresses.append(address)
        return found

    def _relocate(self) -> None:
        for section in self._sections:
            if section[1] != _RELOCATIONS or section[7] not in self._offsets:
                continue
            for n in range(section[5] // 24):
                offset, info, addend = struct.unpack_from("<QQq", self._data, section[4] + 24 * n)
                if info & 0xFFFFFFFF != _ABSOLUTE_64_RELOCATION:
                    raise ImportError(f"relocation {info & 0xFFFFFFFF} is not one that this loader knows")
                address = (self._addresses[info >> 32] + addend) % (1 << 64)
                struct.pack_into("<Q", self.memory, self._offsets[section[7]] + offset, address)

    def _protect(self) -> None:
        if self._code_size:
            _make_executable(self.base, self._code_size)


def _make_executable(address: int, size: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mprotect(_Pointer(address), ctypes.c_size_t(size), 1 | 4):
        raise ImportError(f"the system does not let memory be made executable (error {ctypes.get_errno()})")


def _memory(nbytes: int) -> mmap.mmap:
    """Pages of zeros; a forked child has its own of them, where `mmap` would have it write into its parent's."""
    return mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _c_library_address(name: str) -> int:
    for library in (None, "libm.so.6", "libpthread.so.0"):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), _Pointer).value or 0
        except (AttributeError, OSError):
            continue  # it may be in the next one
    raise ImportError(f"the C library has no `{name}`")


def _require(machine: str, features: Sequence[str]) -> None:
    if sys.platform != "linux" or platform.machine() != machine:
        raise ImportError(f"this code is for Linux on {machine}")
    text = Path("/proc/cpuinfo").read_text()
    flags = next((line.split(":")[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    missing = [f for f in features if f not in flags and not _cpu_tells(f)]
    if missing:
        raise ImportError(f"this CPU lacks {', '.join(missing)}, which this kernel was compiled for")


def _cpu_tells(flag: str) -> bool:
    """Whether the CPU itself tells that it has an instruction set, of those that kernels may not tell."""
    if flag not in _UNTOLD or _cpuid(0, 0)[0] < _EXTENDED_FEATURES:
        return False
    subleaf, register, bit = _UNTOLD[flag]
    if subleaf > _cpuid(_EXTENDED_FEATURES, 0)[0]:
        return False
    return bool(_cpuid(_EXTENDED_FEATURES, subleaf)[register] >> bit & 1)


def _cpuid(leaf: int, subleaf: int) -> tuple[int, ...]:
    """The registers eax, ebx, ecx and edx of the instruction."""
    memory = _memory(_PAGE)
    memory[: len(_CPUID)] = _CPUID
    code = ctypes.c_char.from_buffer(memory)
    _make_executable(ctypes.addressof(code), _PAGE)
    registers = (ctypes.c_uint32 * 4)()
    run = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, _Pointer)(ctypes.addressof(code))
    run(leaf, subleaf, ctypes.addressof(registers))
    return tuple(registers)


def _dtype(name: str) -> np.dtype[Any]:
    if name in np.sctypeDict:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"arrays of {name} are those of ml_dtypes: pip install ml_dtypes") from None

    other: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return other


def _data(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


class PoolText(NamedTuple):
    """A pool of threads, for a process that has none; no code where no loop is parallel."""

    code: str
    functions: tuple[str, ...]
    reset: str

    def load(self) -> PoolCode:
        image = Image(_data(self.code))
        return PoolCode(image, {name: image.symbols[name] for name in self.functions}, self.reset)


Parameter = tuple[str, "np.dtype[Any]", "tuple[int, ...] | None", bool, "int | None"]


def _array(parameter: Parameter, text: str) -> np.ndarray[Any, Any]:
    _, dtype, shape, _, _ = parameter
    return np.frombuffer(_data(text), np.uint8).copy().view(dtype).reshape(shape or ())


class ExportedKernel:
    """`kernel(A, B)` returns new arrays; `kernel(A, B, out=C)` writes one that is given (a tuple, for several).

    The last inputs may be arrays that are packed in this file, and are not given.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[str, str, tuple[int, ...] | None, bool, int | None]],
        code: str,
        entry: str,
        pool: PoolText,
        table: tuple[str, int, Sequence[tuple[int, str]]],
        machine: str,
        features: Sequence[str],
        held: Sequence[str] = (),
    ) -> None:
        _require(machine, features)
        self.name = name
        self.parameters = [(n, _dtype(d), shape, is_output, below) for n, d, shape, is_output, below in parameters]
        self._image = Image(_data(code))
        state, slots, functions = table
        self._state = (ctypes.c_int64 * slots)()
        if pool.code:
            found = shared_pool(pool.load)
            for slot, function in functions:
                self._state[slot] = found[function]
        _Pointer.from_address(self._image.symbols[state]).value = ctypes.addressof(self._state)
        inputs = [p for p in self.parameters if not p[3]]
        self._given, fixed = inputs[: len(inputs) - len(held)], inputs[len(inputs) - len(held) :]
        self._held = [_array(p, text) for p, text in zip(fixed, held, strict=True)]
        for p, x in zip(fixed, self._held, strict=True):
            _require_indices(p, x)
        kinds: list[Any] = [_Pointer if p[2] is not None else _SCALARS[p[1].name] for p in self.parameters]
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds, _Pointer)(self._image.symbols[entry])

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        made = [p for p in self.parameters if p[3]]
        given = [p for p in self.parameters if not p[3]]
        inputs = (*self._order_arguments(inputs, named), *self._held)
        if out is None:
            out = tuple(np.empty(p[2], p[1]) for p in made)
        outputs = out if isinstance(out, tuple) else (out,)
        if len(outputs) != len(made):
            raise TypeError(f"{self.name} has {_count_text(len(made), 'output')}, not {len(outputs)}")
        values = [self._ctypes_value(p, x) for p, x in zip(given, inputs, strict=True)]
        values += [self._ctypes_value(p, x) for p, x in zip(made, outputs, strict=True)]
        for p, x in zip(self._given, inputs, strict=False):
            _require_indices(p, x)
        for p, x in zip(made, outputs, strict=True):
            if not x.flags.writeable:
                raise ValueError(f"`{p[0]}` is read-only")
        everything = [*inputs, *outputs]
        for n, x in enumerate(outputs, len(inputs)):
            if any(
                m != n and isinstance(y, np.ndarray) and np.may_share_memory(x, y) for m, y in enumerate(everything)
            ):
                raise ValueError(f"`{made[n - len(inputs)][0]}` overlaps another argument")
        status = self._function(*values, None)
        if status == _NO_TILES_STATUS:
            raise OSError(f"{self.name}: this system does not give the process AMX's tile registers")
        if status:
            raise MemoryError(f"{self.name}: no memory for its workspace (status {status})")
        return outputs[0] if len(outputs) == 1 else outputs

    def _order_arguments(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in calling order, of which some may be given by name."""
        names = [p[0] for p in self._given]
        takes = f"{self.name} takes {_count_text(len(names), 'argument')} ({', '.join(names)})"
        if len(inputs) > len(names) or (len(inputs) < len(names) and not named):
            raise TypeError(f"{takes}, not {len(inputs)}")
        for name in named:
            if name not in names:
                raise TypeError(f"{self.name} has no argument `{name}`; {takes}")
            if name in names[: len(inputs)]:
                raise TypeError(f"{self.name} is given `{name}` twice: by its place, and by name")
        missing = [f"`{name}`" for name in names[len(inputs) :] if name not in named]
        if missing:
            raise TypeError(f"{self.name} is called without {', '.join(missing)}; {takes}")
        return (*inputs, *(named[name] for name in names[len(inputs) :]))

    def _ctypes_value(self, parameter: Parameter, x: Any) -> Any:
        name, dtype, shape, _, _ = parameter
        if shape is None:
            return _scalar(name, dtype, x)
        if not isinstance(x, np.ndarray) or x.dtype != dtype or x.shape != tuple(shape):
            what = f"{x.dtype}{x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise ValueError(f"`{name}` is {what}; {self.name} takes a {dtype} array of shape {tuple(shape)}")
        if not x.flags.c_contiguous:
            raise ValueError(f"`{name}` is not C-contiguous; copy it with numpy.ascontiguousarray")
        if not x.flags.aligned:
            raise ValueError(f"`{name}` is not aligned to its element size; copy it with `{name}.copy()`")
        return x.ctypes.data


def _require_indices(parameter: Parameter, x: np.ndarray[Any, Any]) -> None:
    """Raise ValueError where an array that another one is indexed by leaves that: the code takes the nearest index."""
    name, _, _, _, below = parameter
    if below is not None and x.size and (int(x.max()) >= below or int(x.min()) < 0):
        wrong = np.argwhere((x < 0) | (x >= below))[0]
        at = ", ".join(map(str, wrong))
        raise ValueError(
            f"`{name}[{at}]` is {x[tuple(wrong)]}, and another argument is indexed by it, of {below} elements: indices "
            f"are 0 to {below - 1}; negative ones do not count from the end"
        )


def _count_text(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def _scalar(name: str, dtype: np.dtype[Any], x: Any) -> float | int:
    """A number that the parameter can hold, for ctypes would wrap an integer; an array of no dimensions is one too."""
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    takes = f"`{name}` is of type {type(x).__name__}; the kernel takes"
    if dtype.kind == "b":
        if not isinstance(x, bool | np.bool_):
            raise TypeError(f"{takes} a bool")
        return int(x)
    if dtype.kind == "f":
        if isinstance(x, bool | np.bool_) or not isinstance(x, float | int | np.floating | np.integer):
            raise TypeError(f"{takes} a number ({dtype})")
        return float(x)
    try:
        number = operator.index(x)
    except TypeError:
        raise TypeError(f"{takes} an integer ({dtype})") from None
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise ValueError(f"`{name}` is {number}, which is not in {dtype}'s range {limits.min} .. {limits.max}")
    return number
