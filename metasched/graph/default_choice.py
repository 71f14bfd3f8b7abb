"""The schedule of a program that nothing is known for."""

from __future__ import annotations

from metasched.calibration.store import core_of
from metasched.errors import NoRecord
from metasched.graph.choices import AS_WRITTEN, GUESSED, Choice
from metasched.graph.ir import type_of
from metasched.ir.program import Program
from metasched.search.guess import guess
from metasched.target import Target

# A program of no more than so many elements and operations runs as it is written: a guess takes longer to find than
# a thousand of its calls.
_SMALL = 50_000


def default_choice(program: Program, target: Target) -> Choice:
    """The guess; or as it is written, where the program is small, or no schedule of the rules can be run."""
    if is_small(program):
        return Choice(None, AS_WRITTEN)
    try:
        found = guess(program, target, core=core_of(target))
    except NoRecord as none:  # it says why, and so does what the network says of its kernels
        return Choice(None, f"{AS_WRITTEN}: {none}")
    chosen = found.expert or ("a neighbour" if found.neighbour is not None else "the model")
    return Choice(found.trace, f"{GUESSED}: {chosen}")


def is_small(program: Program) -> bool:
    """Whether a program's schedule matters too little to look for one."""
    elements = sum(type_of(buffer).size for buffer in (*program.outputs, *program.func.temps))
    return elements + program.work.operations <= _SMALL
