"""Machine code for the tasks of a graph: by their choices, or by the guess."""

from __future__ import annotations

from metasched.calibration.store import core_of
from metasched.graph.choices import AS_WRITTEN, GUESSED, Choice, Choices
from metasched.graph.ir import Graph, type_of
from metasched.graph.task_code import TaskCode, compile_task
from metasched.ir.program import Program
from metasched.search.guess import guess
from metasched.target import Target

# A program of no more than so many elements and operations runs as it is written: a guess takes longer to find than
# a thousand of its calls.
_SMALL = 50_000


def kernels(graph: Graph, choices: Choices, target: Target) -> dict[str, TaskCode]:
    """Machine code of every task of a graph, by the tasks' keys."""
    return {
        key: compile_task(nodes[0].program, choices.get(key) or default_choice(nodes[0].program, target), target)
        for key, nodes in graph.tasks.items()
    }


def default_choice(program: Program, target: Target) -> Choice:
    """The schedule of a program that nothing is known for: the guess, or as it is written where it is small."""
    if is_small(program):
        return Choice(None, AS_WRITTEN)
    found = guess(program, target, core=core_of(target))
    chosen = found.expert or ("a neighbour" if found.neighbour is not None else "the model")
    return Choice(found.trace, f"{GUESSED}: {chosen}")


def is_small(program: Program) -> bool:
    """Whether a program's schedule matters too little to look for one."""
    elements = sum(type_of(buffer).size for buffer in (*program.outputs, *program.func.temps))
    return elements + program.work.operations <= _SMALL
