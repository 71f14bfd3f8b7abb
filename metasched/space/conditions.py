"""What a caller may pass as a space, made into a source or a `Space`; and spaces with some decisions given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from metasched.errors import MetaschedError, ScheduleError
from metasched.ir.program import Program
from metasched.permissions import Allow
from metasched.schedule.trace import Trace
from metasched.space.registry import RuleSpec, resolve
from metasched.space.rule import Rule
from metasched.space.source import Conditioned, FromModule, FromRules, Given, Module, SpaceSource
from metasched.space.space import Space
from metasched.space.traced import FromTrace
from metasched.support.messages import did_you_mean, listing
from metasched.target import Target

SpaceLike: TypeAlias = SpaceSource | Module | RuleSpec | Rule | Space | Trace


def source_of(described: SpaceLike) -> SpaceSource:
    """The source of a space from whatever a caller passed as a space: None is the default rules.

    Raises RuleError for an unknown rule, MetaschedError for a value that does not describe a space.
    """
    match described:
        case None:
            return FromRules(resolve(None), unasked=True)
        case SpaceSource():
            return described
        case Space():
            return described.source
        case Trace():
            return FromTrace(described)
        case Rule():
            return FromRules((described,))
        case str() | list() | tuple():
            return FromRules(resolve(described))
    if not callable(described):
        raise MetaschedError(f"{described!r} describes no space", hint="give rules, a module, a trace or a space")
    return FromModule(described)


def condition(space: SpaceLike, decisions: Given) -> Space | Conditioned:
    """A space with some random variables decided, by address.

    Raises ScheduleError for a `Space` without a variable of such an address, for a decision out of support, and for a
    variable that was given another decision before. Without a program these are checked once there is one.
    """
    for address, decision in decisions.items():
        if decision is None:
            raise ScheduleError(
                "condition", f'None is no decision for "{address}"', hint="leave out what is to be searched"
            )
    if isinstance(space, Space):
        return require_known_addresses(space.conditioned(decisions))
    return Conditioned(source_of(space), dict(decisions))


def space_of(
    program: Program,
    described: SpaceLike,
    *,
    target: Target | None = None,
    allow: Allow = None,
    max_sketches: int,
    seed: int,
) -> Space:
    """The space of a program for a target (by default this machine), from whatever a caller passed as a space.

    `allow` is what results may differ by; None leaves that of a given `Space` as it is.

    Raises RuleError for an unknown rule, ScheduleError for a condition on a variable that no sketch has, MetaschedError
    for the space of another program.
    """
    if isinstance(described, Space):
        return described.of(program).on(target).allowing(allow).resized(min(max_sketches, described.max_sketches))
    source = source_of(described)
    return require_known_addresses(Space(program, source, target, allow=allow, max_sketches=max_sketches, seed=seed))


def require_known_addresses(space: Space) -> Space:
    """The space itself. Raises ScheduleError for an address that no sketch has, naming similar ones."""
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
    if not names:
        return "the space has no random variables"
    return did_you_mean(address, names) or f"there are {listing(names, most=8)}"
