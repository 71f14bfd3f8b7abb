"""A trace with holes as a space: its decisions are fixed, and its holes are searched."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.lang import print_instruction
from metasched.lang.instructions import Instruction
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Schedule, Trace
from metasched.space.rule import Listener
from metasched.space.source import Given, SourceStage, SpaceSource
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted


@dataclass(frozen=True)
class FromTrace(SpaceSource):
    """The instructions of a trace, as a module. Its decisions are given ones.

    A `choose` must be decided, as a trace has the steps of one option only. Otherwise ScheduleError is raised, with
    the line.
    """

    trace: Trace

    def __post_init__(self) -> None:
        for number, line in enumerate(self.trace.instructions, start=2):
            declaration = registry().get(line.op)
            if declaration is not None and declaration.branches and line.decision is None:
                error = ScheduleError(
                    line.op,
                    f"line {number} of the trace leaves a choice open: {print_instruction(line)}",
                    hint="a trace holds the steps of one option only; to search the others as well, fix the rest of "
                    "the space that it came from: ms.condition(space, {address: decision})",
                )
                error.line = number
                raise error

    def run_stage(self, schedule: Schedule, stage: SourceStage, tell: Listener) -> SourceStage | None:
        self.trace.require_program(schedule.program)
        self.trace.run_on(schedule)
        return None

    @property
    def given(self) -> Given:
        return self.trace.decisions

    @property
    def fixes_steps(self) -> bool:
        return True

    def describe(self) -> str:
        return f"a trace of {counted(len(self.trace), 'instruction')} with {counted(len(self.trace.holes), 'hole')}"

    def ingredients(self) -> tuple[object, ...]:
        return ("trace", str(self.trace.simplified().canonical()))

    @cached_property
    def _holes(self) -> frozenset[str | None]:
        return frozenset(line.address for line in self.trace.instructions if line.random and line.decision is None)

    @cached_property
    def _pattern(self) -> tuple[Instruction, ...]:
        return self.trace.simplified().canonical().instructions

    def holds(self, trace: Trace) -> bool:
        """Whether another trace is this one with its holes filled."""
        if not super().holds(trace):
            return False
        met = {address: None for address in trace.decisions if address in self._holes}
        return trace.with_decisions(met).simplified().canonical().instructions == self._pattern
