"""What a kernel is compiled for and scored against: instruction sets, caches, threads. A value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Self

from metasched.dtypes import DType
from metasched.errors import MetaschedError
from metasched.support.amx_permission import tiles_are_given
from metasched.support.compiler_internals import numba_threads
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports
from metasched.support.messages import a_or_an, did_you_mean

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_AMD = "znver"  # LLVM's names of AMD's CPUs since Zen begin so
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_FALLBACK_BYTES = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
# LLVM's names of the instruction sets of CPUs, by architecture: a rule may ask of any of them on any machine.
_X86 = """
    64bit adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile avx avx10.1
    avx10.2 avx2 avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 avx512ifma avx512vbmi
    avx512vbmi2 avx512vl avx512vnni avx512vp2intersect avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16
    avxvnniint8 bmi bmi2 cldemote clflushopt clwb clzero cmov cmpccxadd crc32 cx16 cx8 enqcmd f16c fma fma4 fsgsbase
    fxsr gfni hreset invpcid kl lwp lzcnt mmx movbe movdir64b movdiri movrs mwaitx pclmul pconfig pku popcnt
    prefetchi prfchw ptwrite raoint rdpid rdpru rdrnd rdseed rtm sahf serialize sgx sha sha512 shstk sm3 sm4 sse
    sse2 sse3 sse4.1 sse4.2 sse4a ssse3 tbm tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd widekl xop xsave
    xsavec xsaveopt xsaves
"""
_AARCH64 = """
    aes bf16 complxnum crc crypto dotprod f32mm f64mm fp-armv8 fp16fml fp8 fullfp16 i8mm jsconv lse lse2 mops neon
    rand rcpc rdm sha2 sha3 sm4 sme sme2 sme-f64f64 sme-i16i64 sve sve2 sve2-aes sve2-bitperm sve2-sha3 sve2-sm4
    sve2p1
"""
# What other versions of LLVM call instruction sets of CPUs: records may be of these.
_OTHER_VERSIONS = """
    amx-transpose avx10.1-256 avx10.1-512 avx10.2-256 avx10.2-512 avx512er avx512pf ccmp cf egpr evex512 ndd nf ppx
    prefetchwt1 push2pop2 zu
"""
_FEATURES = frozenset((_X86 + _AARCH64 + _OTHER_VERSIONS).split())
# What every CPU with 64 bits has, so that nobody has to list it: LLVM ends the process without, and knows nothing of a
# CPU by a name that it does not have.
_FEATURES_EVERYWHERE = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
# What an instruction set builds on: a CPU with the one has the others, and nobody has to list those either. LLVM knows
# it, and ends the process where it meets an instruction of a set whose ground was switched off.
_BUILDS_ON: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("aes", "gfni", "kl", "pclmul", "sha", "sse3"), ("sse2",)),
        **dict.fromkeys(("sse4a", "ssse3"), ("sse3",)),
        "sse4.1": ("ssse3",),
        "sse4.2": ("sse4.1",),
        "avx": ("sse4.2",),
        **dict.fromkeys(("avx2", "f16c", "fma", "sm3"), ("avx",)),
        "fma4": ("avx", "sse4a"),
        "xop": ("fma4",),
        "vaes": ("aes", "avx2"),
        "vpclmulqdq": ("avx", "pclmul"),
        "widekl": ("kl",),
        **dict.fromkeys(
            ("avxifma", "avxneconvert", "avxvnni", "avxvnniint16", "avxvnniint8", "sha512", "sm4"), ("avx2",)
        ),
        "avx512f": ("avx2", "f16c", "fma"),
        **dict.fromkeys(
            (
                *("avx512bw", "avx512cd", "avx512dq", "avx512ifma", "avx512vl", "avx512vnni"),
                *("avx512vp2intersect", "avx512vpopcntdq"),
            ),
            ("avx512f",),
        ),
        **dict.fromkeys(("avx512bf16", "avx512bitalg", "avx512vbmi", "avx512vbmi2"), ("avx512bw",)),
        "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
        "avx10.1": (
            *("avx512bf16", "avx512bitalg", "avx512cd", "avx512fp16", "avx512ifma", "avx512vbmi", "avx512vbmi2"),
            *("avx512vnni", "avx512vpopcntdq"),
        ),
        "avx10.2": ("avx10.1",),
        **dict.fromkeys(
            ("amx-bf16", "amx-complex", "amx-fp16", "amx-fp8", "amx-int8", "amx-movrs", "amx-tf32"), ("amx-tile",)
        ),
        "amx-avx512": ("amx-tile", "avx10.2"),
    }
)
# Of AMD's CPUs alone, where LLVM has use for what newer sets do as well: with it, code would run nowhere else.
_LEFT_OUT_OF_CODE = frozenset({"sse4a"})
# The registers of AMX, which a process has to ask the system for.
_TILES = "amx-tile"
# Of the numbers that fit in 64 bits, and of a text that a message shows.
_MOST_DIGITS = 18
_SHOWN_CHARACTERS = 40


class TargetError(MetaschedError):
    """Text that is not a target."""


# Of lanes far apart, so many bytes that iterations of an unrolled loop read side by side are loaded at once, and
# transposed in registers: what x86 shuffles in one step, wherever it is in a vector.
TRANSPOSED_BYTES = 16


# Bytes of a line of the caches of every CPU that code is made for. Arrays begin at one: their vectors are aligned, too.
CACHE_LINE = 64


@dataclass(frozen=True)
class Target:
    """A CPU: `name` is LLVM's, `features` LLVM's names of the instruction sets present, cache sizes in bytes.

        >>> ms.Target.detect(threads=2).threads
        2

    `threads` is how many threads a parallel loop is divided over at most. `l1` and `l2` belong to one core, `l3` is
    shared. A target with fewer features than the machine's compiles for fewer; one with more makes code that the
    machine cannot run.
    """

    name: str
    features: frozenset[str]
    threads: int
    l1: int
    l2: int
    l3: int
    cacheline: int = CACHE_LINE

    @classmethod
    def detect(cls, threads: int | None = None) -> Self:
        """This machine, without AMX where the system refuses it; `threads` defaults to the number Numba runs with."""
        name, features = _host()
        l1, l2, l3 = _caches()
        return cls(name, features, threads if threads is not None else numba_threads(), l1, l2, l3)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The target that `str(target)` printed; raises TargetError, also for an instruction set that no CPU has."""
        given: object = text
        if not isinstance(given, str):
            raise TargetError(f"a target is read from a text, not from {a_or_an(type(given).__name__)}")
        words = [word.partition("=") for word in text.split()]
        fields = {key: value for key, _, value in words}
        known = ("name", "threads", "l1", "l2", "l3", "cacheline", "features")
        missing = [key for key in known if key not in fields]
        unknown = [key for key in fields if key not in known]
        if missing or unknown or len(words) > len(fields):
            wrong = f"`{_clip_text(unknown[0])}` is not a field" if unknown else "a field is there twice"
            wrong = f"`{missing[0]}` is missing" if missing else wrong
            raise TargetError(
                f"not a target: {wrong}. A target reads `name=skylake-avx512 threads=4 l1=32768 l2=1048576 "
                f"l3=33554432 cacheline=64 features=avx2,avx512f,fma`"
            )
        numbers = {key: _positive_integer(key, fields[key]) for key in known[1:6]}
        features = frozenset(filter(None, fields["features"].split(",")))
        for feature in sorted(features):
            _require_known(feature, "not a target: ")
        return cls(fields["name"], features, **numbers)

    def __str__(self) -> str:
        return (
            f"name={self.name} threads={self.threads} l1={self.l1} l2={self.l2} l3={self.l3} "
            f"cacheline={self.cacheline} features={','.join(sorted(self.features))}"
        )

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise TargetError(f"a target has at least one thread, not {self.threads}")

    @property
    def vector_bits(self) -> int:
        """Width of a vector register."""
        if "avx512f" in self.features:
            return 512
        return 256 if "avx" in self.features else 128

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 32 if "avx512f" in self.features or "neon" in self.features else 16

    @property
    def broadcasts_in_operations(self) -> bool:
        """Whether a vector instruction may take one element for all lanes, without a broadcast before it."""
        return "avx512f" in self.features or "neon" in self.features

    @property
    def gathers(self) -> bool:
        """Whether the lanes of a register are loaded from anywhere in memory in about the time of so many loads.

        AVX2 has such instructions, too, but slower ones than loads and shuffles: LLVM makes those. So are those of
        AMD's CPUs: of 16 lanes, Zen 4 takes 36 cycles to gather them, and 10 to load and join them.
        """
        return "avx512f" in self.features and not self.name.startswith(_AMD)

    def neighbours(self, dtype: DType) -> int:
        """Elements of `dtype` side by side that are loaded at once where vectors are transposed in registers."""
        return TRANSPOSED_BYTES // dtype.bytes

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in a vector register. Raises TargetError for what is no element type."""
        _require_dtype(dtype)
        return self.vector_bits // dtype.bits

    def has(self, feature: str) -> bool:
        """Whether the CPU has an instruction set, by LLVM's name of it: `target.has("amx-bf16")`.

        Raises TargetError for a name that no CPU has one of, with those that are near.
        """
        if feature not in self.features:
            _require_known(feature)
        return feature in self.features

    def lacking(self, wanted: Target) -> tuple[str, ...]:
        """The instruction sets that code for another target may use and this one does not have, sorted."""
        return tuple(sorted(wanted.features - self.features))

    def runnable_here(self) -> Target:
        """This target less what this machine lacks: itself where it lacks nothing."""
        lacking = Target.detect(self.threads).lacking(self)
        return self.without(lacking) if lacking else self

    def with_threads(self, threads: int) -> Target:
        return replace(self, threads=threads)

    def without(self, features: Iterable[str]) -> Target:
        """This target less some instruction sets and those that build on them."""
        gone = frozenset(features)
        return replace(self, features=frozenset(f for f in self.features - gone if gone.isdisjoint(base_features(f))))

    def code_features(self) -> frozenset[str]:
        """The instruction sets that code may have: those of the CPU, and what they build on.

        SSE4a is left out where nothing builds on it, so that code of an AMD CPU runs on Intel's that have the rest.
        """
        granted: frozenset[str] = frozenset().union(*map(base_features, self.features))
        return (self.features - _LEFT_OUT_OF_CODE) | granted

    def llvm_features(self) -> str:
        """LLVM's feature string: every feature it knows on this kind of CPU, on or off, so that `name` adds none.

        Those that are off come last: switching one on brings what it builds on, and switching one off takes away
        what builds on it. So what every CPU with these features has is never off.
        """
        granted = _FEATURES_EVERYWHERE | self.code_features()
        on = (self.features - _LEFT_OUT_OF_CODE) | (_FEATURES_EVERYWHERE & _known_features())
        off = _known_features() - on - granted
        return ",".join(["+" + f for f in sorted(on)] + ["-" + f for f in sorted(off)])


@cache
def base_features(feature: str) -> frozenset[str]:
    """The instruction sets that one builds on, and those that they do."""
    direct = _BUILDS_ON.get(feature, ())
    return frozenset(direct).union(*map(base_features, direct))


def feature_problem(name: str) -> tuple[str, str] | None:
    """What is wrong with the name of an instruction set, and a hint; None where some CPU has one of that name."""
    if name in _FEATURES or name in _known_features():
        return None
    near = did_you_mean(name.lower(), _FEATURES | _known_features())
    hint = near or "names are LLVM's, such as avx512f, avx512vnni, amx-bf16"
    return f"there is no instruction set `{_clip_text(name)}`", hint


def _require_known(feature: str, before: str = "") -> None:
    """Raises TargetError for an instruction set that no CPU has, with those that are near."""
    problem = feature_problem(feature)
    if problem is not None:
        message, hint = problem
        raise TargetError(before + message, hint=hint)


def _clip_text(text: str) -> str:
    """A text as a message shows it."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _positive_integer(key: str, text: str) -> int:
    # Python refuses to convert very long numbers, and takes digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) >= 1):
        raise TargetError(f"not a target: `{key}` is a positive integer, not `{_clip_text(text)}`")
    return int(text)


@lru_cache(maxsize=1)
def _host() -> tuple[str, frozenset[str]]:
    llvm = imports.module("llvmlite.binding")
    found = llvm.get_host_cpu_features()
    missing = {f for f, on in found.items() if not on}
    if not tiles_are_given():
        missing.add(_TILES)
    # Virtual machines hide a set and leave what builds on it.
    sound = (f for f in found if missing.isdisjoint({f, *base_features(f)}))
    return llvm.get_host_cpu_name(), frozenset(sound)


def _require_dtype(dtype: object) -> None:
    if not isinstance(dtype, DType):
        raise TargetError(
            f"`dtype` is {dtype!r}, not a DType",
            hint='make one by metasched.dtypes.DType("f32"); what `describe` says of a block has its own, `info.dtype`',
        )


def tiles_are_refused() -> bool:
    """Whether this CPU has AMX, and the system does not give processes its tile registers."""
    return imports.module("llvmlite.binding").get_host_cpu_features().get(_TILES, False) and not tiles_are_given()


@lru_cache(maxsize=1)
def _known_features() -> frozenset[str]:
    llvm = imports.module("llvmlite.binding")
    return frozenset(llvm.get_host_cpu_features())


@lru_cache(maxsize=1)
def _caches() -> tuple[int, int, int]:
    sizes = dict(_FALLBACK_BYTES)
    if _CACHES.is_dir():
        for index in sorted(_CACHES.glob("index[0-9]*")):
            level, size = _cache(index)
            if level in sizes and size:
                sizes[level] = size
    return sizes[1], sizes[2], sizes[3]


def _cache(index: Path) -> tuple[int, int]:
    """Level and bytes of a data cache as Linux states it, (0, 0) for an instruction cache or an unreadable entry."""
    try:
        kind = (index / "type").read_text().strip()
        level = (index / "level").read_text().strip()
        size = re.fullmatch(r"(\d+)([KMG]?)", (index / "size").read_text().strip())
    except OSError:
        return 0, 0
    if kind == "Instruction" or size is None or not level.isdigit():
        return 0, 0
    return int(level), int(size[1]) * _UNITS[size[2]]


def require_target(target: object, hint: str = "make one by Target.detect() or Target.parse(text)") -> None:
    """Raises MetaschedError for what is no target, such as the text of one."""
    if not isinstance(target, Target):
        raise MetaschedError(f"`target` is {a_or_an(type(target).__name__)}, not a Target", hint=hint)
