"""Which innermost loops keep vectors in memory for lack of registers, as LLVM's comments in assembly tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metasched.compiler.cpu.codegen import ObjectCode, commented_assembly
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

_BLOCK = re.compile(r"^(?:\.L(BB\w+):|[#/]+ %bb\.)")
_LOOP_NAME = re.compile(r"%loop\.(.+)\.\d+")
_INNER_LOOP_MARK = "This Inner Loop Header"
_IN_LOOP = re.compile(r"in Loop: Header=(BB\w+)")
_SPILL = re.compile(r"(\d+)-byte (?:Folded )?(Spill|Reload)")
# Bytes of the smallest vector register: smaller ones are addresses and counts.
_LEAST_VECTOR_BYTES = 16


@dataclass
class AssemblyLoop:
    """A loop of assembly, and how many vectors an iteration stores and loads for lack of registers."""

    name: str = ""
    is_inner: bool = False
    stores: int = 0
    loads: int = 0


def spill_warnings(code: ObjectCode) -> tuple[str, ...]:
    """A sentence for each innermost loop that spills vectors. Costs what making its machine code did."""
    registers = code.target.registers
    return tuple(
        f"the innermost loop `{loop.name or 'without a name'}` spills: {counted(loop.stores, 'store')} and "
        f"{counted(loop.loads, 'load')} of vectors that do not fit in {registers} registers. Make its tile smaller"
        for loop in inner_loops(commented_assembly(code))
        if loop.stores or loop.loads
    )


def inner_loops(text: str) -> Iterator[AssemblyLoop]:
    """The innermost loops of assembly with LLVM's comments, with what each spills in one iteration."""
    loops: dict[str, AssemblyLoop] = {}
    current = AssemblyLoop()
    for line in text.splitlines():
        if (block := _BLOCK.match(line)) is not None:
            current = loops.setdefault(block[1], AssemblyLoop()) if block[1] else AssemblyLoop()
            heading = _LOOP_NAME.search(line)
            current.name = _loop_variable(heading[1]) if heading else ""
        if _INNER_LOOP_MARK in line:
            current.is_inner = True
        elif (inside := _IN_LOOP.search(line)) is not None:
            current = loops.setdefault(inside[1], AssemblyLoop())
        if (spill := _SPILL.search(line)) is not None and int(spill[1]) >= _LEAST_VECTOR_BYTES:
            if spill[2] == "Spill":
                current.stores += 1
            else:
                current.loads += 1
    yield from (loop for loop in loops.values() if loop.is_inner)


def _loop_variable(name: str) -> str:
    """The loop variable: strips of a vectorised loop have a name of their own."""
    return name.partition(".strip")[0]
