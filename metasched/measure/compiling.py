"""A scheduled program to machine code that another process can load, and when two candidates are the same code."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import lru_cache
from math import prod

from metasched.compiler.cpu.codegen import compile_text
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.compiler.lower.layouts import memory_shape
from metasched.ir.nodes import Buffer, Func
from metasched.ir.prologue import constants, divide
from metasched.measure.records import Artefact, ArtefactPrologue
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

    Where something is computed of constant arguments ahead, the text of the prologue comes before that of the main
    part, and the main part is what is timed. The whole is the same computation in other code, which takes as long to
    make as both parts: it is made of candidates that are fast (`compile_func`).
    """
    division = divide(func, constants(func))
    if division.prologue is None:
        artefact, text = lower_func(func, target, phases)
        return artefact, text.encode(), code_hash(text)
    prologue, prologue_text = lower_func(division.prologue, target, phases)
    main, main_text = lower_func(division.main, target, phases)
    ahead = prologue_text.encode()
    results = division.prologue.outputs
    names = {b.name for b in results}
    given = ArtefactPrologue(
        prologue,
        tuple(func.order.index(name) for name in division.prologue.order),
        tuple(func.order.index(name) for name in division.main.order if name not in names),
        tuple(map(_bytes_of, results)),
        len(ahead),
    )
    return replace(main, ahead=given), ahead + main_text.encode(), code_hash(main_text)


def compile_candidate(artefact: Artefact, text: bytes, phases: Stopwatch) -> tuple[Artefact, bytes]:
    """The texts of a candidate to machine code, that of the prologue before the main part's. Raises BuildError."""
    target = Target.parse(artefact.target)
    ahead, timed = artefact.split(text)
    with phases.timed("compile"):
        prologue = b"" if artefact.ahead is None else _compiled_before(ahead, target)
        main = compile_text(timed.decode(), target).data
    if artefact.ahead is None:
        return artefact, main
    return replace(artefact, ahead=replace(artefact.ahead, size=len(prologue))), prologue + main


@lru_cache(maxsize=64)
def _compiled_before(text: bytes, target: Target) -> bytes:
    """The machine code of a prologue: most candidates of a task pack their constants like others."""
    return compile_text(text.decode(), target).data


def _bytes_of(buffer: Buffer) -> int:
    return prod(memory_shape(buffer)) * buffer.dtype.bytes


def code_hash(text: str) -> str:
    """A hash of LLVM text up to the names of its values and labels: equal for equal machine code.

    Names come from those of loops, which differ where two schedules end at the same loops.
    """
    # Between two names, the text is as it is; of a pair of groups, one matched.
    parts = _LOCAL.split(text)
    names = [used or defined for used, defined in zip(parts[1::3], parts[2::3], strict=True)]
    numbers = {name: f"%{n}" for n, name in enumerate(dict.fromkeys(names))}
    between = parts[::3]
    renamed = [part for pair in zip(between, map(numbers.__getitem__, names), strict=False) for part in pair]
    return hashlib.sha256("".join([*renamed, between[-1]]).encode()).hexdigest()[:32]
