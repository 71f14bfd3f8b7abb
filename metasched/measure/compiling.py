"""A scheduled program to machine code that another process can load."""

from __future__ import annotations

from metasched.backend.codegen import compile_text
from metasched.backend.emit import emit
from metasched.backend.lower import lower
from metasched.backend.target import Target
from metasched.ir.nodes import Func
from metasched.measure.phases import Phases
from metasched.measure.records import Artefact


def compile_func(func: Func, target: Target, phases: Phases) -> tuple[Artefact, bytes]:
    """The machine code of a scheduled program, and what running it takes. Raises BuildError."""
    with phases.timed("lower"):
        kernel = lower(func, target)
    with phases.timed("emit"):
        module = emit(kernel, target)
    with phases.timed("compile"):
        code = compile_text(module.text, target)
    scalars = tuple((kernel.order.index(s.name), s.dtype.value) for s in kernel.scalars)
    return Artefact(module.entry, module.workspace_bytes, module.parallel, str(target), scalars), code.data
