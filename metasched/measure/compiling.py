"""A scheduled program to machine code that another process can load, and when two candidates are the same code."""

from __future__ import annotations

import hashlib
import re

from metasched.compiler.cpu.codegen import compile_text
from metasched.compiler.cpu.emit import emit
from metasched.compiler.lower import lower
from metasched.ir.nodes import Func
from metasched.measure.records import Artefact
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target

# A local name of LLVM's text, where it is used, or where a label is defined.
_LOCAL = re.compile(r'%("[^"]*"|[\w.$-]+)|^("[^"]*"|[\w.$-]+):', re.MULTILINE)


def lower_func(func: Func, target: Target, phases: Stopwatch) -> tuple[Artefact, str]:
    """The LLVM text of a scheduled program, and what running its machine code takes. Raises BuildError."""
    with phases.timed("lower"):
        kernel = lower(func, target)
    with phases.timed("emit"):
        module = emit(kernel, target)
    scalars = tuple((kernel.order.index(s.name), s.dtype.value) for s in kernel.scalars)
    return Artefact(module.entry, module.workspace_bytes, module.parallel, str(target), scalars), module.text


def compile_func(func: Func, target: Target, phases: Stopwatch) -> tuple[Artefact, bytes]:
    """The machine code of a scheduled program, and what running it takes. Raises BuildError."""
    artefact, text = lower_func(func, target, phases)
    with phases.timed("compile"):
        return artefact, compile_text(text, target).data


def code_hash(text: str) -> str:
    """A hash of LLVM text up to the names of its values and labels: equal for equal machine code.

    Names come from those of loops, which differ where two schedules end at the same loops.
    """
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return numbers.setdefault(name, f"%{len(numbers)}")

    return hashlib.sha256(_LOCAL.sub(number, text).encode()).hexdigest()[:32]
