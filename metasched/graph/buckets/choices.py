"""Schedules for a network of other sizes, such that its kernels read weights as those of another network do."""

from __future__ import annotations

from metasched.compiler.lower import lower
from metasched.errors import BuildError, LanguageError, ScheduleError
from metasched.graph.choices import Choice
from metasched.graph.default_choice import is_small
from metasched.graph.ir import Compute
from metasched.graph.network import Network
from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.ir.prologue import constants, divide
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace
from metasched.target import Target

_ORIGIN = "as at other sizes"


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
            found[key] = Choice(trace, _ORIGIN)
    return found


def _schedule(nodes: tuple[Compute, ...], schedules: dict[str, str | None]) -> str | None:
    return schedules.get(nodes[0].name)


def _same_packing(text: str, program: Program, wanted: Program, target: Target) -> Trace | None:
    """A schedule for a program of other sizes; None where it does not apply, or packs weights in another way."""
    try:
        trace = Trace.parse(text)
        made = trace.apply_to(wanted, Policy.REPAIR)
        before = trace.apply_to(program)
        lower(divide(made.func, constants(made.func)).main, target)
    except (ScheduleError, BuildError, LanguageError):
        return None
    return made.trace if _prologue(made.func) == _prologue(before.func) else None


def _prologue(func: Func) -> Func | None:
    return divide(func, constants(func)).prologue
