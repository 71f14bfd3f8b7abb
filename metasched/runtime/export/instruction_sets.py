"""The instruction sets that exported code asks for, by the names that loaders look for."""

from __future__ import annotations

from metasched.errors import KernelError, MetaschedError
from metasched.support.messages import listing
from metasched.target import Target

# Instruction sets that code may have, by LLVM's name and by the Linux kernel's. The loader asks the CPU itself for
# those that /proc/cpuinfo does not tell everywhere.
_FLAGS = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "popcnt": "popcnt",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "tbm": "tbm",
    "movbe": "movbe",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "fma4": "fma4",
    "xop": "xop",
    "f16c": "f16c",
    "gfni": "gfni",
    "avxifma": "avx_ifma",
    "avxvnni": "avx_vnni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512cd": "avx512cd",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}
# What code never has: what every CPU with 64 bits has besides, and instructions that LLVM emits only for intrinsics of
# their own (or for bfloat, which is bits in our code), of which there are none.
_NEVER_IN_CODE = """
    64bit adx aes amx-avx512 amx-complex amx-fp16 amx-fp8 amx-movrs amx-tf32 amx-transpose avx10.1 avx10.1-256
    avx10.1-512 avx512er avx512pf avx512vp2intersect avxneconvert avxvnniint16 avxvnniint8 cldemote clflushopt clwb
    clzero cmov cmpccxadd crc32 cx16 cx8 enqcmd evex512 fsgsbase fxsr hreset invpcid kl lwp mmx movdir64b movdiri
    movrs mwaitx pclmul pconfig pku prefetchi prefetchwt1 prfchw ptwrite raoint rdpid rdpru rdrnd rdseed rtm sahf
    serialize sgx sha sha512 shstk sm3 sm4 sse sse2 tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd widekl
    xsave xsavec xsaveopt xsaves
"""
_NEVER_ASKED = frozenset(_NEVER_IN_CODE.split())


def cpu_flags(target: Target, error: type[MetaschedError] = KernelError) -> list[str]:
    """The instruction sets that code for a target may have, by the Linux kernel's names, sorted.

    Raises `error` for a set that has no such name: what loads the code could not tell whether its CPU has it.
    """
    asked = target.code_features() - _NEVER_ASKED
    unnamed = sorted(asked - _FLAGS.keys())
    if unnamed:
        raise error(
            f"code for `{target.name}` may have instructions of {listing(unnamed, most=4)}, and an export cannot tell "
            "whether a CPU has them",
            hint="make it for a target without: `target.without(["
            + ", ".join(f'"{feature}"' for feature in unnamed)
            + "])`",
        )
    return sorted(_FLAGS[feature] for feature in asked)
