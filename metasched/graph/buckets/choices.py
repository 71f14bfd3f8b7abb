"""Schedules for a network of other sizes from those of a network that is compiled: so that weights are read in one
layout, or nothing is guessed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from metasched.compiler.lower import lower
from metasched.errors import BuildError, LanguageError, ScheduleError
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.default_choice import is_small
from metasched.graph.ir import Compute, Graph
from metasched.graph.loops.flat_graph import flat
from metasched.graph.network import Network
from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.ir.prologue import constants, divide
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace
from metasched.target import Target


def choices_like(other: Network, network: Network) -> dict[str, Choice]:
    """The schedules of another network's kernels for the same nodes, where these pack weights in the same way."""
    schedules = {step.task: step.schedule for step in other.steps}
    known = {place: node.program for place, node in _computes_by_place(other.optimised)}
    found: dict[str, Choice] = {}
    for place, node in _computes_by_place(network.optimised):
        key, program = node.program.structural_hash(), node.program
        schedule = schedules.get(known[place].structural_hash()) if place in known and key not in found else None
        if schedule is None or is_small(program) or not constants(program.func):
            continue
        trace = _repair_with_same_packing(schedule, known[place], program, network.target)
        if trace is not None:
            found[key] = Choice(trace, ScheduleOrigin.OTHER_SIZES)
    return found


def _computes_by_place(graph: Graph) -> Iterator[tuple[tuple[str, int], Compute]]:
    """The nodes that run programs, in loops, too, by their names and which of that name they are: of one node of the
    model there may be several.
    """
    seen = Counter[str]()
    for node in flat(graph).graph.computes:
        yield (node.name, seen[node.name]), node
        seen[node.name] += 1


def choices_alike(other: Network, network: Network) -> dict[str, Choice]:
    """The schedules of another network's kernels for the same nodes, where this one's programs are others."""
    schedules = {step.node: step.schedule for step in other.steps}
    known = other.optimised.tasks
    found: dict[str, Choice] = {}
    for key, nodes in network.optimised.tasks.items():
        schedule = _schedule(nodes, schedules)
        if key in known or schedule is None or is_small(nodes[0].program):
            continue
        trace = _repair_trace(schedule, nodes[0].program, network.target)
        if trace is not None:
            found[key] = Choice(trace, ScheduleOrigin.OTHER_SIZES)
    return found


def _repair_trace(text: str, wanted: Program, target: Target) -> Trace | None:
    """A schedule for a program of other sizes; None where it does not apply."""
    try:
        made = Trace.parse(text).apply_to(wanted, Policy.REPAIR)
        lower(divide(made.func, constants(made.func)).main, target)
    except (ScheduleError, BuildError, LanguageError):
        return None
    return made.trace


def _schedule(nodes: tuple[Compute, ...], schedules: dict[str, str | None]) -> str | None:
    return schedules.get(nodes[0].name)


def _repair_with_same_packing(text: str, program: Program, wanted: Program, target: Target) -> Trace | None:
    """A schedule for a program of other sizes; None where it does not apply, or packs weights in another way."""
    trace = _repair_trace(text, wanted, target)
    if trace is None:
        return None
    # Equal programs are one kernel, whose trace has the name of the one that it was made for.
    before = Trace.parse(text).apply_to(program, Policy.REPAIR)
    return trace if _prologue(trace.apply_to(wanted).func) == _prologue(before.func) else None


def _prologue(func: Func) -> Func | None:
    return divide(func, constants(func)).prologue
