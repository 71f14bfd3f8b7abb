"""Structures of a space, made on demand: drawn, mutated and crossed over by the addresses of their decisions.

A structure is what the structural random variables decided: choices and compute locations. A decision that others make
impossible is repaired, and one that is missing is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from metasched.lang.instructions import Decision
from metasched.schedule.handlers import DrawFromPrior, Site, stream
from metasched.space.source_runs import Pick, SourceRun, picked_by
from metasched.space.space import Space
from metasched.support.data_classes import dataclass

Decisions = Mapping[str, Decision]
# Seeds of draws are below it.
SEEDS = 1 << 62


@dataclass(frozen=True)
class _InheritDecisions:
    """Decides as one of the parents did, which for each address comes first by chance; what is impossible is repaired,
    and what is missing is drawn."""

    parents: tuple[Decisions, ...]
    seed: int

    def pick(self, site: Site) -> Decision:
        parents = self.parents
        if len(parents) > 1 and stream(self.seed, site.address).random() < 0.5:
            parents = parents[::-1]
        given = [parent[site.address] for parent in parents if site.address in parent]
        fitting = next((decision for decision in given if site.dist.contains(decision)), None)
        if fitting is not None:
            return fitting
        return site.dist.repair(given[0]) if given else picked_by(DrawFromPrior(self.seed))(site)


class Structures:
    """The structures of a space. What is made depends on the random generator, and never on what was made before.

    Each returns None where no structure comes of it: a space is empty, or a step of a trace is not legal there. Raises
    ScheduleError where a rule takes a step that is not legal.
    """

    def __init__(self, space: Space) -> None:
        self._space = space

    def first(self) -> SourceRun | None:
        """The structure of the space's first sketch."""
        return self._space.first_run()

    def draw(self, rng: np.random.Generator) -> SourceRun | None:
        """A structure from the prior."""
        return self._run_source(picked_by(DrawFromPrior(int(rng.integers(SEEDS)))))

    def mutate(self, rng: np.random.Generator, run: SourceRun) -> SourceRun | None:
        """A structure with one decision changed, and others only as far as that requires; None if there is no other."""
        seed = int(rng.integers(SEEDS))
        open_ = [(site, taken) for site, taken in run.met if len(site.dist.options()) > 1]
        if not open_:
            return None
        site, taken = open_[int(rng.integers(len(open_)))]
        others = [option for option in site.dist.options() if option != taken]
        changed = {**run.decisions, site.address: others[int(rng.integers(len(others)))]}
        return self._run_source(_InheritDecisions((changed,), seed).pick)

    def cross(self, rng: np.random.Generator, mother: SourceRun, father: SourceRun) -> SourceRun | None:
        """A structure with each decision from one of two, as far as it is possible there."""
        seed = int(rng.integers(SEEDS))
        return self._run_source(_InheritDecisions((mother.decisions, father.decisions), seed).pick)

    def of(self, decisions: Decisions, seed: int = 0) -> SourceRun | None:
        """The structure with these decisions, as far as they are possible; what is missing is drawn by the seed."""
        return self._run_source(_InheritDecisions((decisions,), seed).pick)

    def _run_source(self, pick: Pick) -> SourceRun | None:
        return self._space.run_with(pick)
