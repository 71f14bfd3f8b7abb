"""Runs of a space's source under different structural decisions, of which the steps that they share are made once.

The runs form a tree. It branches where a stage of the source (a rule on a block) meets structural random variables; the
schedule before that stage is kept, and a run that decides the same up to there goes on from a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from metasched.lang.instructions import Decision, Instruction
from metasched.schedule.handlers import FixedDecisions, Free, Handler, PickByFunction, Site, Symbolic
from metasched.schedule.trace import Schedule
from metasched.space.rule import Outcome
from metasched.space.sketch import Sketch
from metasched.space.source import SourceStage, SpaceSource
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

# Decides a structural random variable: the same for the same site.
Pick = Callable[[Site], Decision]
Met: TypeAlias = tuple[tuple[Site, Decision], ...]


def picked_by(handler: Handler) -> Pick:
    """What a handler decides, which never leaves structure open."""

    def pick(site: Site) -> Decision:
        decision = handler.decide(site)
        assert not isinstance(decision, Free)
        return decision

    return pick


@dataclass(frozen=True, eq=False)
class SourceRun:
    """A sketch, the structural random variables met on the way to it, and what the rules did."""

    sketch: Sketch
    met: Met
    outcomes: tuple[Outcome, ...]
    instructions: tuple[Instruction, ...]
    addresses: frozenset[str]

    @cached_property
    def decisions(self) -> dict[str, Decision]:
        """The structural decisions that are not given, by address."""
        return {site.address: taken for site, taken in self.met}


@dataclass
class _Node:
    """A schedule before a stage; `after` are the runs from there, by what the stage decides."""

    schedule: Schedule
    stage: SourceStage
    outcomes: tuple[Outcome, ...]
    met: Met
    after: list[tuple[Met, _Node | SourceRun]] = field(default_factory=list)


class SourceRuns:
    """All runs so far of a source, on a schedule without steps, whose structural decisions are `given` or picked."""

    def __init__(self, source: SpaceSource, start: Schedule) -> None:
        self._source = source
        self._root = _Node(start, SourceStage(), (), ())

    def run(self, pick: Pick) -> SourceRun:
        """The run under these decisions. Raises what the source raises."""
        node = self._root
        while True:
            found = next((after for met, after in node.after if all(pick(site) == taken for site, taken in met)), None)
            if found is None:
                return self._grow(node, pick)
            if isinstance(found, SourceRun):
                return found
            node = found

    def _grow(self, node: _Node, pick: Pick) -> SourceRun:
        """Run the rest of the source from a node, and keep the schedules before the stages that decide."""
        picked = PickByFunction(pick)
        handlers = FixedDecisions(self._source.given, Symbolic(picked))
        schedule = node.schedule.fork(handlers)
        outcomes = list(node.outcomes)
        stage = self._source.run_stage(schedule, node.stage, outcomes.append)
        while stage is not None:
            decided, told = len(picked.met), len(outcomes)
            before = schedule.fork(handlers)
            following = self._source.run_stage(schedule, stage, outcomes.append)
            if len(picked.met) > decided:
                done = tuple(picked.met[:decided])
                child = _Node(before, stage, tuple(outcomes[:told]), (*node.met, *done))
                node.after.append((done, child))
                node, picked.met = child, picked.met[decided:]
            stage = following
        run = SourceRun(
            Sketch.of(schedule),
            (*node.met, *picked.met),
            tuple(outcomes),
            schedule.instructions,
            frozenset(record.site.address for record in schedule.sites),
        )
        node.after.append((tuple(picked.met), run))
        return run
