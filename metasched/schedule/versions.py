"""The primitive of a trace's instruction, and the instruction upgraded to the current version."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.lang.instructions import Instruction, Value
from metasched.schedule.arguments import bind, is_default
from metasched.schedule.primitive import Declaration, registry
from metasched.support.messages import did_you_mean


def current_form(instruction: Instruction) -> tuple[Declaration, Instruction]:
    """The primitive of an instruction, and the instruction upgraded to its version.

    Raises ScheduleError for a primitive or a version that is not known.
    """
    declaration = registry().get(instruction.op)
    if declaration is None:
        raise ScheduleError(
            instruction.op,
            "there is no primitive of this name",
            hint=did_you_mean(instruction.op, registry()) or "metasched's documentation lists them",
        )
    while instruction.version < declaration.version and instruction.version in declaration.upgrades:
        made = declaration.upgrades[instruction.version](instruction)
        instruction = replace(made, version=instruction.version + 1)
    if instruction.version != declaration.version:
        raise ScheduleError(
            instruction.op,
            f"version {instruction.version} is not known; this metasched has version {declaration.version}",
            hint="replay the trace with the metasched that wrote it",
        )
    return declaration, instruction


def normal_form(instruction: Instruction) -> Instruction:
    """An instruction as a schedule writes it: upgraded, optional arguments by name and only if they differ from the
    default.

    An unknown instruction, or one with wrong arguments, is returned unchanged.
    """
    try:
        declaration, current = current_form(instruction)
        bound = bind(declaration, current.args, dict(current.kwargs))
    except ScheduleError:
        return instruction
    args: list[Value] = []
    kwargs: list[tuple[str, Value]] = []
    for param, value in bound:
        if param.variadic:
            args.extend(value)
        elif not param.keyword:
            args.append(value)
        elif not is_default(param, value):
            kwargs.append((param.name, value))
    return replace(current, args=tuple(args), kwargs=tuple(kwargs))
