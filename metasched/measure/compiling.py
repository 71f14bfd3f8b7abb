"""A scheduled program to machine code that another process can load, and when two candidates are the same code."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from math import prod

from metasched.compiler.cpu.codegen import compile_text
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.compiler.lower.layouts import memory_shape
from metasched.ir.nodes import Buffer, Func
from metasched.ir.prologue import constants, divide
from metasched.measure.records import Artefact, ArtefactParts
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


def lower_candidate(func: Func, target: Target, phases: Stopwatch) -> tuple[Artefact, bytes, str]:
    """The LLVM text of a candidate and the hash of the code that is timed. Raises BuildError.

    Where something is computed of constant arguments ahead, the texts of the prologue and of the main part follow, and
    the main part is what is timed.
    """
    artefact, text = lower_func(func, target, phases)
    division = divide(func, constants(func))
    if division.prologue is None:
        return artefact, text.encode(), code_hash(text)
    prologue, prologue_text = lower_func(division.prologue, target, phases)
    main, main_text = lower_func(division.main, target, phases)
    blobs = prologue_text.encode(), main_text.encode()
    results = division.prologue.outputs
    names = {b.name for b in results}
    parts = ArtefactParts(
        prologue,
        main,
        tuple(func.order.index(name) for name in division.prologue.order),
        tuple(func.order.index(name) for name in division.main.order if name not in names),
        tuple(map(_bytes_of, results)),
        (len(blobs[0]), len(blobs[1])),
    )
    return replace(artefact, parts=parts), b"".join((text.encode(), *blobs)), code_hash(main_text)


def compile_candidate(artefact: Artefact, text: bytes, phases: Stopwatch) -> tuple[Artefact, bytes]:
    """The texts of a candidate to machine code, its parts behind the whole as well. Raises BuildError."""
    target = Target.parse(artefact.target)
    texts = (text,) if artefact.parts is None else artefact.parts.split(text)
    with phases.timed("compile"):
        whole, *parts = (compile_text(part.decode(), target).data for part in texts)
    if artefact.parts is None:
        return artefact, whole
    prologue, main = parts
    divided = replace(artefact.parts, sizes=(len(prologue), len(main)))
    return replace(artefact, parts=divided), whole + prologue + main


def _bytes_of(buffer: Buffer) -> int:
    return prod(memory_shape(buffer)) * buffer.dtype.bytes


def code_hash(text: str) -> str:
    """A hash of LLVM text up to the names of its values and labels: equal for equal machine code.

    Names come from those of loops, which differ where two schedules end at the same loops.
    """
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return numbers.setdefault(name, f"%{len(numbers)}")

    return hashlib.sha256(_LOCAL.sub(number, text).encode()).hexdigest()[:32]
