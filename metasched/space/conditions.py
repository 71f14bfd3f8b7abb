"""Conditioning: a space in which some decisions are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias, Union

from metasched.errors import MetaschedError, ScheduleError
from metasched.ir.program import Program
from metasched.schedule.trace import Schedule, Trace
from metasched.space.generate import FromModule, Generator, SpaceSource
from metasched.space.registry import RuleSpec, resolve
from metasched.space.rule import Rule
from metasched.space.space import Space
from metasched.space.traced import FromTrace, merged

# A decision as Python says it: `[None, 8]`, 16, "outer", "root", or the name of a loop.
Given: TypeAlias = Mapping[str, object]

Module = Callable[[Schedule], object]


@dataclass(frozen=True)
class Conditioned:
    """Anything that describes a space, with decisions given by address. `condition` makes it."""

    of: SpaceLike
    given: Given


SpaceLike: TypeAlias = Union["Conditioned", Module, RuleSpec, Rule, Space, Trace]


def condition(space: SpaceLike, decisions: Given) -> Space | Conditioned:
    """A space with some random variables decided, by address.

    Raises ScheduleError for a `Space` without a variable of such an address, or where a decision is out of support;
    what has no program yet is checked when it meets one. Raises it too where another decision is given already.
    """
    for address, decision in decisions.items():
        if decision is None:
            raise ScheduleError(
                "condition", f'None is no decision for "{address}"', hint="leave out what is to be searched"
            )
    if isinstance(space, Space):
        return given_checked(space.conditioned(decisions))
    merged(_given(space), decisions)
    return Conditioned(space, dict(decisions))


def _given(space: SpaceLike) -> Given:
    """What is decided already, and known without a program."""
    if isinstance(space, Conditioned):
        return merged(_given(space.of), space.given)
    return space.decisions if isinstance(space, Trace) else {}


def space_of(program: Program, space: SpaceLike, *, max_sketches: int, seed: int) -> Space:
    """The space that anything which describes one makes of a program.

    Raises RuleError for a rule that is not there, ScheduleError for a condition that no variable meets.
    """
    if isinstance(space, Space):
        if space.program != program:
            raise MetaschedError(f"the space is one of {space.program.key}, and the program is {program.key}")
        return space.resized(min(max_sketches, space.max_sketches))
    source, given = described(space)
    return given_checked(Space(program, source, max_sketches=max_sketches, seed=seed, given=given))


def described(space: SpaceLike) -> tuple[SpaceSource, Given]:
    """What makes the sketches, and what is given, of anything that describes a space; no program is looked at.

    Raises RuleError for a rule that is not there, ScheduleError where one variable is decided twice.
    """
    if isinstance(space, Conditioned):
        source, given = described(space.of)
        return source, merged(given, space.given)
    if isinstance(space, Trace):
        return FromTrace(space), space.decisions
    if isinstance(space, Rule):
        return Generator((space,)), {}
    if space is None or isinstance(space, str | list | tuple):
        return Generator(resolve(space)), {}
    if isinstance(space, Space):
        return space.source, space.given
    if not callable(space):
        raise MetaschedError(f"{space!r} describes no space; give rules, a module, a trace or a space")
    return FromModule(space), {}


def given_checked(space: Space) -> Space:
    """The space itself. Raises ScheduleError for an address that no sketch has, naming those that are near."""
    unmet = space.unmet()
    if unmet:
        address = unmet[0]
        raise ScheduleError(
            "condition",
            f'no sketch of {space.program.key} has a random variable at "{address}"',
            hint=_advice(address, space.addresses()),
        )
    return space


def _advice(address: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(address, names, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(f'"{name}"' for name in near) + "?"
    shown = ", ".join(f'"{name}"' for name in names[:8]) + (", ..." if len(names) > 8 else "")
    return f"there are {shown}" if names else "the space has no random variables"
