"""Beam search over partial schedules, as in Halide's autoscheduler (Adams et al. 2019).

A partial structure is a prefix of an arm's decisions, in the order in which they are made. Level by level, each prefix
of the beam is extended by every option of its next decision, completed by the decisions of the arm that it comes from,
and judged by the best score among a few rows of what results; the best prefixes are the next beam. The numbers of the
structures that look best are then searched likewise, variable by variable: each row of a beam is extended by values of
the next variable, and the later ones are as they were in the row that it comes from.

The first completions are the structures measured fastest and the first ones of the space, so a pass begins where the
last one ended, as Halide's coarse-to-fine passes do. A pass makes a bounded number of new structures; where they do not
suffice for every option, a random part of the options is tried (Halide drops some at random, too). Nothing is kept
between batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.search.rounds.batch_choice import with_newcomers
from metasched.search.rounds.guided import GuidedSearch
from metasched.search.rounds.population import legal
from metasched.search.rounds.round import Described, Round
from metasched.search.space_protocol import Candidate, Rows, Strategy
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class BeamConfig:
    """`width` prefixes of structures go on, and `rows` of numbers in each of the `active` structures that look best.

    A pass makes up to `made` new structures. A row is extended by `values` of each variable; the first rows are some of
    `fresh` draws and up to `elite` measured ones of each structure. `explore` is the share of a batch picked at random.
    """

    width: int = 4
    made: int = 16
    active: int = 3
    rows: int = 64
    values: int = 8
    fresh: int = 1536
    elite: int = 32
    explore: float = 0.1


class BeamSearch(GuidedSearch):
    """The strategy `beam`."""

    def __init__(self, given: StrategyInputs, config: BeamConfig | None = None) -> None:
        super().__init__(given.arms, given.model, given.seed, given.phases)
        self.config = config or BeamConfig()

    def look(self, now: Round, count: int) -> list[Candidate]:
        self.structures.begin(now)
        self._extend_structures(now)
        active, drawn = self.open_best(now, self.config.active, self.config.fresh, self.config.elite)
        for n in active:
            self._extend_rows(now, n)
        return with_newcomers(now, drawn, count, self.config.explore)

    # --- structures

    def _extend_structures(self, now: Round) -> None:
        """A pass over the levels of decisions, until none is left or enough structures were made."""
        beam = self._best_prefixes(0, now.ranked_arms())
        left, level = self.config.made, 0
        while left > 0 and (open_ := [n for n in beam if len(self.arms.choices(n)) > level]):
            born: dict[int, Described] = {}
            for parent in open_:
                for child in self._children(now, parent, level, -(-left // len(open_))):
                    if child not in born and not now.pool.has_rows(child):
                        born[child] = self.structures.newborn(now, parent, child)
            now.add_described(born)
            left -= len(born)
            level += 1
            beam = self._best_prefixes(level, [n for n in now.ranked_arms() if n in born or n in beam])

    def _children(self, now: Round, parent: int, level: int, most: int) -> list[int]:
        """Up to `most` arms that decide as a parent does up to a level, and otherwise there."""
        taken = self.arms.choices(parent)
        decisions = {choice.address: choice.options[choice.taken] for choice in taken}
        here = taken[level]
        others = [n for n in range(len(here.options)) if n != here.taken]
        tried = [others[at] for at in now.rng.permutation(len(others))[:most]]
        made = (self.arms.of(now.rng, {**decisions, here.address: here.options[n]}) for n in tried)
        return [n for n in made if n is not None]

    def _best_prefixes(self, level: int, ranked: Sequence[int]) -> list[int]:
        """The best arm of each of the best prefixes up to a level; `ranked` are best first."""
        found: dict[tuple[tuple[str, int], ...], int] = {}
        for n in ranked:
            found.setdefault(tuple((c.address, c.taken) for c in self.arms.choices(n)[: level + 1]), n)
        return list(found.values())[: self.config.width]

    # --- numbers

    def _extend_rows(self, now: Round, arm: int) -> None:
        """A pass over the variables of an arm."""
        if not now.pool.has_rows(arm):
            return
        beam = now.best_rows(arm, self.config.rows)
        for group in self.arms[arm].groups:
            rows = np.concatenate([beam, self._extend_beam(now, arm, beam, group)])
            rows = np.unique(rows, axis=0)
            scores = now.score({arm: rows})[arm]
            beam = rows[np.argsort(-scores, kind="stable")[: self.config.rows]]

    def _extend_beam(self, now: Round, arm: int, beam: Rows, group: Sequence[int]) -> Rows:
        """Each row with other values of one variable, where that is legal."""
        rows = np.repeat(beam, self.config.values, axis=0)
        drawn = self.arms[arm].sample(now.rng, len(rows))
        rows[:, list(group)] = drawn[:, list(group)]
        return legal(self.arms[arm], rows)


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `beam`, as it is by default. Raises ValueError for a space without an arm."""
    return BeamSearch(given)
