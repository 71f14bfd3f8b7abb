"""A trace with holes as a space: what it decides is fixed, and what it leaves open is searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from metasched.errors import ScheduleError
from metasched.lang import print_instruction
from metasched.lang.instructions import HOLE, Instruction, Ref
from metasched.schedule.trace import Schedule, Trace
from metasched.space.generate import Outcome


@dataclass(frozen=True)
class FromTrace:
    """The instructions of a trace, as a module.

    A `choose` must be decided: a trace holds the steps of one of its options only. Raises ScheduleError else, with the
    line.
    """

    trace: Trace

    def __post_init__(self) -> None:
        for number, line in enumerate(self.trace.instructions, start=2):
            if line.op == "choose" and line.decision is None:
                error = ScheduleError(
                    "choose",
                    f"line {number} of the trace leaves a choice open: {print_instruction(line)}",
                    hint="a trace holds the steps of one option only; to search the others as well, fix the rest of "
                    "the space that it came from: ms.condition(space, {address: decision})",
                )
                error.line = number
                raise error

    def ingredients(self) -> object:
        """What the space is made from, for its fingerprint: the trace up to the names of its handles."""
        return "trace", str(self.trace.canonical())

    def run(self, schedule: Schedule) -> tuple[Outcome, ...]:
        self.trace.require_program(schedule.program)
        self.trace.run_on(schedule)
        return ()

    @cached_property
    def _holes(self) -> frozenset[str | None]:
        return frozenset(line.address for line in self.trace.instructions if line.random and line.decision is None)

    @cached_property
    def _pattern(self) -> tuple[Instruction, ...]:
        return self.trace.simplified().canonical().instructions

    def holds(self, trace: Trace) -> bool:
        """Whether another trace is this one with its holes filled."""
        met = {address: None for address in trace.decisions if address in self._holes}
        return trace.with_decisions(met).simplified().canonical().instructions == self._pattern


def agrees(trace: Trace, given: Mapping[str, object]) -> bool:
    """Whether a trace decides nothing otherwise."""
    taken = trace.decisions
    common = ((taken[address], decision) for address, decision in given.items() if address in taken)
    return all(plain_decision(one) == plain_decision(other) for one, other in common)


def merged(given: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Decisions by address, and more of them. Raises ScheduleError where one is given twice, and otherwise."""
    for address, decision in more.items():
        if address in given and plain_decision(given[address]) != plain_decision(decision):
            raise ScheduleError(
                "condition",
                f'"{address}" is decided twice: as {_said(given[address])}, and as {_said(decision)}',
                hint="change one of the two decisions, or leave it out",
            )
    return {**given, **more}


def _said(decision: object) -> str:
    plain = plain_decision(decision)
    if isinstance(plain, tuple):
        return "[" + ", ".join("_" if item is None else str(item) for item in plain) + "]"
    return f'"{plain}"' if isinstance(plain, str) else str(plain)


def plain_decision(decision: object) -> object:
    """A decision in the one form in which equal ones are equal: tuples, names of loops, None for what is open."""
    if isinstance(decision, Ref):
        return decision.name
    if isinstance(decision, list | tuple):
        return tuple(None if item == HOLE else item for item in decision)
    return decision
