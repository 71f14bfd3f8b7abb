"""Machine code of a task: its program with a schedule, divided into what is computed of constants once, and a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.cpu.emit.python_entry import EntryArgument
from metasched.compiler.cpu.emit.steps import step_entry
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.compiler.lower import lower
from metasched.graph.code.choices import Choice
from metasched.graph.code.step_code import StepArgument, StepArgumentKind, StepCode, TaskCode
from metasched.ir.nodes import Func
from metasched.ir.pitch import set_strides
from metasched.ir.program import Program
from metasched.ir.prologue import constants, divide
from metasched.runtime.compiled import KernelArgument, parameters_of
from metasched.support.collection import pause_gc
from metasched.target import Target

NO_STRIDES: Mapping[str, Sequence[int]] = MappingProxyType({})


@pause_gc()
def compile_task(
    program: Program, choice: Choice, target: Target, strides: Mapping[str, Sequence[int]] = NO_STRIDES
) -> TaskCode:
    """The machine code of a program by a choice. Raises ScheduleError and BuildError.

    What is computed of constants once is code for this machine, which runs it, whatever else the target has.
    `strides` are those of arguments that have gaps between their rows, in elements, by name.
    """
    func = set_strides(_scheduled_func(program, choice), strides)
    division = divide(func, constants(func))
    made = () if division.prologue is None else tuple(b.name for b in division.prologue.outputs)
    kinds = {
        StepArgumentKind.INPUT: [b.name for b in program.inputs],
        StepArgumentKind.OUTPUT: [b.name for b in program.outputs],
        StepArgumentKind.PACKED: list(made),
    }
    places = {name: (kind, n) for kind, names in kinds.items() for n, name in enumerate(names)}
    prologue = None if division.prologue is None else _step(division.prologue, places, target.runnable_here())
    main = _step(func if prologue is None else division.main, places, target)
    return TaskCode(main, prologue, choice.told, None if choice.trace is None else str(choice.trace))


def _scheduled_func(program: Program, choice: Choice) -> Func:
    """The program by the choice's schedule."""
    if choice.func is not None:
        return choice.func
    return program.func if choice.trace is None else choice.trace.apply_to(program).func


def _step(func: Func, places: dict[str, tuple[StepArgumentKind, int]], target: Target) -> StepCode:
    import_code_generator()
    from metasched.compiler.cpu.codegen import compile_text

    parameters = parameters_of(func)
    entries = [EntryArgument(p.dtype, p.shape, p.is_output) for p in parameters]
    module = emit(lower(func, target), target)
    text = module.text + step_entry(entries, module.entry, workspace=module.workspace_bytes > 0)
    data = compile_text(text, target).data
    return StepCode(_arguments(parameters, entries, places), data, module.workspace_bytes, module.parallel)


def _arguments(
    parameters: Sequence[KernelArgument],
    entries: Sequence[EntryArgument],
    places: dict[str, tuple[StepArgumentKind, int]],
) -> tuple[StepArgument, ...]:
    return tuple(StepArgument(*places[p.name], entry.bytes) for p, entry in zip(parameters, entries, strict=True))
