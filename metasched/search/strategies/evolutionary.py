"""Evolutionary search over structures and their numbers, guided by a model.

Each round looks at the structures that were measured fastest, at some drawn once for all, and at offspring of those
that look best: one decision changed, or decisions of two parents (`search/rounds/structure_breeding.py`). The best few
structures get a population each.

The rows of these start from the fastest measured and fresh draws, breed for a few generations under the model's score,
and the best that were never measured are proposed. It follows Ansor and MetaSchedule (Zheng et al. 2020; Shao et al.
2022): a share of measured rows in the first population, parents drawn by score, a share of random picks. It differs in
that structures breed too, crossover exists, parents are drawn by rank, arms compete for parents in one population, and
a batch is spread out.

With `ahead`, from the third batch on some generations are bred while the batch before is built, by what was known
before its times. Then the model learns these, scores what was bred anew, and the other generations and the choice of
the batch go by them. It is off: on the frozen table, 3 of 4 generations ahead lost 1 % at 64 codes (five tasks, two
seeds).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from metasched.cost.model import Model
from metasched.search.phases import Phases
from metasched.search.rounds.batch_choice import with_newcomers
from metasched.search.rounds.guided import GuidedSearch
from metasched.search.rounds.population import crossover, distinct, draw_parents, legal
from metasched.search.rounds.round import Round
from metasched.search.rounds.rows_ahead import RowsAhead, rows_ahead_of
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.space_protocol import Arm, Arms, Candidate, Rows, Strategy
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass

# What tells the draws of a round that looks ahead from those of the next one.
_AHEAD_SEED = 1


@dataclass(frozen=True)
class EvolutionConfig:
    """How a round goes.

    Of the structures that it looks at, the rows of the `active` ones that look best breed. There, `population` fresh
    draws and up to `elite` measured rows of each arm go through `generations`, `ahead` of which are bred before the
    times of the last batch are known. A child is mutated with probability `mutate` and has two parents with probability
    `cross`. `explore` is the share of a batch picked at random among the draws, the better ones more often, after the
    short list of the first candidates.
    """

    population: int = 3072
    generations: int = 4
    active: int = 3
    elite: int = 32
    ahead: int = 0
    mutate: float = 0.85
    cross: float = 0.4
    explore: float = 0.2
    structures: StructureConfig = StructureConfig()

    def __post_init__(self) -> None:
        if min(self.population, self.active) < 1 or min(self.generations, self.elite, self.ahead) < 0:
            raise ValueError(f"populations are positive: {self}")
        if not all(0 <= share <= 1 for share in (self.mutate, self.cross, self.explore)):
            raise ValueError(f"probabilities lie between 0 and 1: {self}")


class Evolution(GuidedSearch):
    """The strategy `evolutionary`; `config` says how a round goes."""

    def __init__(
        self,
        arms: Arms,
        model: Model,
        seed: int,
        config: EvolutionConfig | None = None,
        phases: Phases | None = None,
    ) -> None:
        self.config = config or EvolutionConfig()
        super().__init__(arms, model, seed, phases, self.config.structures)
        self._ahead: RowsAhead | None = None

    def look_ahead(self) -> None:
        self._ahead = self._looked_ahead(len(self.history))

    def propose_in_parts(self, count: int) -> Iterator[list[Candidate]]:
        # The model learns what was known then, if that is yet to be done, before it learns what is known now.
        self._ahead = self._looked_ahead(self.lengths[-2]) if len(self.lengths) > 1 else None
        return super().propose_in_parts(count)

    def look(self, now: Round, count: int) -> list[Candidate]:
        config, ahead = self.config, self._ahead
        if ahead is None:
            active, drawn = self.begin(now, config.active, config.population, config.elite)
        else:
            active, drawn = self._go_on(now, ahead)
        for _ in range(config.generations if ahead is None else config.generations - config.ahead):
            self._breed(now, active)
        return with_newcomers(now, drawn, count, config.explore)

    def _looked_ahead(self, length: int) -> RowsAhead | None:
        """What is bred for the batch after the one proposed with so many observations; nothing where none was known."""
        if not (length and self.config.ahead):
            return None
        if self._ahead is not None and self._ahead.length == length:
            return self._ahead
        history = self.history if length == len(self.history) else self.history.until(length)
        now = self.open_round(history, SeenFeatures(history), [_AHEAD_SEED])
        active, drawn = self.begin(now, self.config.active, self.config.population, self.config.elite)
        for _ in range(min(self.config.ahead, self.config.generations)):
            self._breed(now, active)
        self.scored += now.scored
        return rows_ahead_of(now, active, drawn, self.config.population)

    def _go_on(self, now: Round, ahead: RowsAhead) -> tuple[list[int], list[Candidate]]:
        """Begin with what was bred before the last times were known, and with what was measured since."""
        config = self.config
        now.add_described(ahead.described)
        self.structures.begin(now)
        active = now.ranked_arms()[: config.active]
        fresh = config.population // len(active)
        now.add({n: now.start(n, 0 if n in ahead.opened else fresh, config.elite) for n in active})
        return active, list(ahead.drawn)

    def _breed(self, now: Round, active: Sequence[int]) -> None:
        """One generation: parents over the active arms by score, children within an arm."""
        arm_of, row_of, scores = now.pool.population(active, self.config.population)
        if not len(scores):
            return
        parents = draw_parents(now.rng, scores, self.config.population)
        born: dict[int, Rows] = {}
        for n in active:
            of_arm = np.flatnonzero(arm_of == n)
            mothers = parents[arm_of[parents] == n]
            if len(mothers):
                fathers = of_arm[draw_parents(now.rng, scores[of_arm], len(mothers))]
                rows = now.pool.rows(n)
                children = self._children(now.rng, self.arms[n], rows[row_of[mothers]], rows[row_of[fathers]])
                born[n] = distinct(legal(self.arms[n], children), now.pool.known_keys(n))
        now.add(born)

    def _children(self, rng: np.random.Generator, arm: Arm, mothers: Rows, fathers: Rows) -> Rows:
        crossed = rng.random(len(mothers)) < self.config.cross
        children = np.where(crossed[:, None], crossover(rng, arm, mothers, fathers), mothers)
        mutated = rng.random(len(children)) < self.config.mutate
        changed: Rows = np.where(mutated[:, None], arm.mutate(rng, children), children)
        return changed


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `evolutionary`, as it is by default. Raises ValueError for a space without an arm."""
    return Evolution(given.arms, given.model, given.seed, phases=given.phases)
