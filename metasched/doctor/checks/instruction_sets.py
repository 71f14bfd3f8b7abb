"""What kernels can use of this CPU."""

from __future__ import annotations

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Fact, Finding, Standing
from metasched.target import tiles_are_refused

# What rules and intrinsics ask for, by LLVM's names: the widest vectors first.
_USED = ("avx512f", "avx512vnni", "avx512bf16", "amx-bf16", "amx-int8", "avxvnni", "avx2", "fma", "neon")


def check(examined: Examined) -> Finding:
    """The instruction sets that the rules ask for, and whether the system permits AMX where the CPU has it."""
    target = examined.target
    used = [name for name in _USED if name in target.features]
    facts: dict[str, Fact] = {"vector_bits": target.vector_bits, "instruction_sets": used}
    found = f"vectors of {target.vector_bits} bits; {', '.join(used) or 'no instruction set that rules ask for'}"
    if tiles_are_refused():
        return Finding(
            Standing.PROBLEM,
            f"{found}; the CPU has AMX, and the system refuses it to processes",
            "Linux 5.16 and newer give it; a container's seccomp profile has to permit arch_prctl. "
            "Until then kernels are made without it",
            facts,
        )
    if not used:
        return Finding(Standing.NOTE, found, "kernels are right, and slower than on a CPU with wider vectors", facts)
    return Finding(Standing.GOOD, found, facts=facts)
