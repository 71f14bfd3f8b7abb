"""Kernels compiled for machines that are not this one."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from metasched.compiler.cpu.codegen import _run_passes
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.ir.nodes import Func
from metasched.target import Target

WIDE = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512vnni", "avx512bf16", "avx512fp16")
AVX2 = ("avx", "avx2", "fma", "f16c")
AMX = ("amx-tile", "amx-int8", "amx-bf16")


@cache
def machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2)


def assembly(func: Func, target: Target, triple: str, cpu: str, features: str, *, comments: bool = False) -> str:
    """Of the kernel compiled for another machine; `comments` are LLVM's, on loops and on what it spills."""
    module = llvm.parse_assembly(emit(lower(func, target), target).text)
    there = machine(triple, cpu, features)
    module.triple, module.data_layout = triple, str(there.target_data)
    _run_passes(module, there)
    there.set_asm_verbosity(comments)
    return str(there.emit_assembly(module))


def plain(name: str, features: frozenset[str]) -> Target:
    return Target(name, features, threads=2, l1=32 << 10, l2=512 << 10, l3=8 << 20)


def for_sapphire_rapids(func: Func) -> str:
    """The assembly of a kernel for a CPU with every instruction set that intrinsics are for."""
    target = plain("sapphirerapids", frozenset((*AVX2, *WIDE, *AMX)))
    return assembly(func, target, "x86_64-unknown-linux-gnu", "sapphirerapids", "")
