"""Sources of spaces: rules, a module, or a trace with holes, each optionally with given decisions.

A source says what it does to a schedule, which traces it could have made, how it is described, and what its fingerprint
is computed from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

from metasched.lang.decisions import decision_text, to_python
from metasched.schedule.handlers import checked_decision
from metasched.schedule.trace import Schedule, Trace
from metasched.space.given import agrees, merge_decisions
from metasched.space.rule import Listener, Outcome, Rule
from metasched.support.data_classes import dataclass

Module = Callable[[Schedule], object]
# Decisions as Python values, by address: `[None, 8]`, 16, "outer", "root", or the name of a loop.
Given: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class SourceStage:
    """A position in the run of a source: the number of a rule, and the blocks left for it to visit; None if all are."""

    rule: int = 0
    blocks: tuple[str, ...] | None = None


class SpaceSource(ABC):
    """What is run on a schedule to make the sketches of a space; the schedule's handler makes the decisions.

    It runs in stages, each of which depends on the schedule and on nothing else: a schedule that was copied between two
    of them may go on from there under other decisions.
    """

    def run(self, schedule: Schedule) -> tuple[Outcome, ...]:
        """Apply it to a schedule; returns the outcomes of its rules, if it has any."""
        outcomes: list[Outcome] = []
        stage: SourceStage | None = SourceStage()
        while stage is not None:
            stage = self.run_stage(schedule, stage, outcomes.append)
        return tuple(outcomes)

    @abstractmethod
    def run_stage(self, schedule: Schedule, stage: SourceStage, tell: Listener) -> SourceStage | None:
        """Apply a stage to a schedule; returns the next one, None at the end. `tell` gets the outcomes of rules."""

    @property
    def given(self) -> Given:
        """The given decisions, which are not searched, by address."""
        return {}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that are tried on every block."""
        return ()

    @property
    def fixes_steps(self) -> bool:
        """Whether the steps are the same whatever is decided.

        If so, compute locations are enumerated like choices, and left out if a later step is not legal there.
        """
        return False

    @property
    def by_default(self) -> bool:
        """Whether the caller named no space: only then may an expert's trace be the guess."""
        return False

    @property
    def base(self) -> SpaceSource:
        """The source without given decisions."""
        return self

    def holds(self, trace: Trace) -> bool:
        """Whether a trace, made by such a source, belongs to the space: it contradicts no given decision."""
        return agrees(trace, self.given)

    @abstractmethod
    def describe(self) -> str:
        """A short description for a person."""

    @abstractmethod
    def ingredients(self) -> tuple[object, ...]:
        """What the fingerprint is computed from: values and functions. Equal spaces have equal ones."""


@dataclass(frozen=True)
class FromRules(SpaceSource):
    """Rules as one module: each in list order visits the blocks that exist when it starts, consumers first."""

    tried: tuple[Rule, ...]
    unasked: bool = False

    def run_stage(self, schedule: Schedule, stage: SourceStage, tell: Listener) -> SourceStage | None:
        schedule.hold_to_allowed()
        if stage.rule == len(self.tried):
            return None
        here = schedule.block_names()
        name, *rest = here[::-1] if stage.blocks is None else stage.blocks
        if name in here:
            self.tried[stage.rule].apply(schedule, schedule.get_block(name), tell)
        return SourceStage(stage.rule, tuple(rest)) if rest else SourceStage(stage.rule + 1)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.tried

    @property
    def by_default(self) -> bool:
        return self.unasked

    def describe(self) -> str:
        return "the rules " + (", ".join(rule.name for rule in self.tried) or "of an empty list")

    def ingredients(self) -> tuple[object, ...]:
        return ("rules", self.tried)


@dataclass(frozen=True)
class FromModule(SpaceSource):
    """A user's module for one program, as a space."""

    module: Module

    def run_stage(self, schedule: Schedule, stage: SourceStage, tell: Listener) -> SourceStage | None:
        self.module(schedule)
        return None

    def describe(self) -> str:
        return f"the module {getattr(self.module, '__name__', type(self.module).__name__)}"

    def ingredients(self) -> tuple[object, ...]:
        return ("module", self.module)


@dataclass(frozen=True)
class Conditioned(SpaceSource):
    """Another source with given decisions, by address. Raises ScheduleError where they contradict earlier ones, and for
    what is no decision.
    """

    of: SpaceSource
    decisions: Given

    def __post_init__(self) -> None:
        plain = {a: to_python(checked_decision(d, "condition", a, places=False)) for a, d in self.decisions.items()}
        object.__setattr__(self, "decisions", plain)
        merge_decisions(self.of.given, plain)

    def run_stage(self, schedule: Schedule, stage: SourceStage, tell: Listener) -> SourceStage | None:
        return self.of.run_stage(schedule, stage, tell)

    @property
    def given(self) -> Given:
        return merge_decisions(self.of.given, self.decisions)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.of.rules

    @property
    def fixes_steps(self) -> bool:
        return self.of.fixes_steps

    def holds(self, trace: Trace) -> bool:
        return self.of.holds(trace) and super().holds(trace)

    def describe(self) -> str:
        given = ", ".join(f'"{address}" := {decision_text(decision)}' for address, decision in self.decisions.items())
        return f"{self.of.describe()}, where {given}" if given else self.of.describe()

    @property
    def base(self) -> SpaceSource:
        return self.of.base

    def ingredients(self) -> tuple[object, ...]:
        decided = {address: decision_text(decision) for address, decision in self.given.items()}
        return ("given", decided, self.base) if decided else self.of.ingredients()
