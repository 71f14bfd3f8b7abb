"""Schedules for a network of other sizes from those of a network that is compiled: so that weights are read in one
layout, or nothing is guessed again.
"""

from __future__ import annotations

from metasched.compiler.lower import lower
from metasched.errors import BuildError, LanguageError, ScheduleError
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.default_choice import is_small
from metasched.graph.ir import Compute
from metasched.graph.network import Network
from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.ir.prologue import constants, divide
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace
from metasched.target import Target


def choices_like(other: Network, network: Network) -> dict[str, Choice]:
    """The schedules of another network's kernels for the same nodes, where these pack weights in the same way."""
    schedules = {step.node: step.schedule for step in other.steps}
    programs = {node.name: node.program for node in other.optimised.computes}
    found: dict[str, Choice] = {}
    for key, nodes in network.optimised.tasks.items():
        program = nodes[0].program
        schedule = _schedule(nodes, schedules)
        if schedule is None or is_small(program) or not constants(program.func):
            continue
        trace = _same_packing(schedule, programs[nodes[0].name], program, network.target)
        if trace is not None:
            found[key] = Choice(trace, ScheduleOrigin.OTHER_SIZES)
    return found


def choices_alike(other: Network, network: Network) -> dict[str, Choice]:
    """The schedules of another network's kernels for the same nodes, where this one's programs are others."""
    schedules = {step.node: step.schedule for step in other.steps}
    known = other.optimised.tasks
    found: dict[str, Choice] = {}
    for key, nodes in network.optimised.tasks.items():
        schedule = _schedule(nodes, schedules)
        if key in known or schedule is None or is_small(nodes[0].program):
            continue
        trace = _repaired(schedule, nodes[0].program, network.target)
        if trace is not None:
            found[key] = Choice(trace, ScheduleOrigin.OTHER_SIZES)
    return found


def _repaired(text: str, wanted: Program, target: Target) -> Trace | None:
    """A schedule for a program of other sizes; None where it does not apply."""
    try:
        made = Trace.parse(text).apply_to(wanted, Policy.REPAIR)
        lower(divide(made.func, constants(made.func)).main, target)
    except (ScheduleError, BuildError, LanguageError):
        return None
    return made.trace


def _schedule(nodes: tuple[Compute, ...], schedules: dict[str, str | None]) -> str | None:
    return schedules.get(nodes[0].name)


def _same_packing(text: str, program: Program, wanted: Program, target: Target) -> Trace | None:
    """A schedule for a program of other sizes; None where it does not apply, or packs weights in another way."""
    trace = _repaired(text, wanted, target)
    if trace is None:
        return None
    before, made = Trace.parse(text).apply_to(program), trace.apply_to(wanted)
    return trace if _prologue(made.func) == _prologue(before.func) else None


def _prologue(func: Func) -> Func | None:
    return divide(func, constants(func)).prologue
