"""Which CPU's pipeline LLVM orders instructions for, where its own model of a CPU takes too many registers.

Emission has put the instructions of a register tile into the order that takes the fewest registers. LLVM orders them
once more, by its model of the CPU. By the one that it has of Zen 4 and Zen 5, it loads the operands of many unrolled
terms ahead of the first, and keeps them in memory for lack of registers: 26 accumulators of 16 terms take 372 accesses
to the stack beside 416 products. By that of another CPU with the same vectors, none.
"""

from __future__ import annotations

from metasched.target import Target

# Names of LLVM, as `Target.name`: the CPU, and the one whose model it is given. Instructions stay those that it has.
_ORDERED_AS = {"znver4": "sapphirerapids", "znver5": "sapphirerapids"}


def scheduling_attribute(target: Target) -> str:
    """What a function says for its instructions to be ordered well, as text of LLVM; empty for most targets."""
    other = _ORDERED_AS.get(target.name)
    return "" if other is None else f'"tune-cpu"="{other}"'
