"""Evolutionary search over the rows of several arms, guided by a model.

Each round starts from the fastest rows measured and fresh draws, lets them breed for a few generations under the
model's score, and proposes the best that were never measured. It follows Ansor and MetaSchedule (Zheng et al. 2020;
Shao et al. 2022): a share of measured rows in the first population, parents drawn by score, a share of random picks. It
differs in that crossover exists, parents are drawn by rank, arms compete for parents in one population, and a batch is
spread out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metasched.cost.model import Model
from metasched.search.history import History
from metasched.search.phases import Phase, Phases
from metasched.search.population import crossover, distinct, draw, draw_parents, keys, legal
from metasched.search.selection import Pool, spread
from metasched.search.space_protocol import Arm, Candidate, Observation, Rows

# Draws of each arm that a batch's random picks are taken from.
EXPLORED = 64


@dataclass(frozen=True)
class EvolutionConfig:
    """How a round goes.

    `population` rows breed for `generations`; `elite` measured rows an arm join the first one, and at least
    `fresh` draws. A child is mutated with probability `mutate` and has two parents with probability `cross`.
    `explore` is the share of a batch picked at random among the fresh draws, the better ones more often.
    """

    population: int = 2048
    generations: int = 4
    elite: int = 32
    fresh: int = 32
    mutate: float = 0.85
    cross: float = 0.4
    explore: float = 0.1

    def __post_init__(self) -> None:
        if min(self.population, self.fresh) < 1 or min(self.generations, self.elite) < 0:
            raise ValueError(f"populations are positive: {self}")
        if not all(0 <= share <= 1 for share in (self.mutate, self.cross, self.explore)):
            raise ValueError(f"probabilities lie between 0 and 1: {self}")


class Evolution:
    """The strategy `evolutionary`.

    Args:
        arms: what to search; at least one.
        model: trained here on what is observed; until then its untrained score ranks.
        seed: with the observations, decides every proposal.
        config: how a round goes.
        phases: where the time that training takes is counted.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        model: Model,
        seed: int,
        config: EvolutionConfig | None = None,
        phases: Phases | None = None,
    ) -> None:
        if not arms:
            raise ValueError("nothing to search: the space has no sketch")
        self.arms = arms
        self.model = model
        self.seed = seed
        self.config = config or EvolutionConfig()
        self.phases = phases or Phases()
        self.history = History(arms)
        self._fitted = 0
        self.scored = 0

    def observe(self, results: Sequence[Observation]) -> None:
        self.history.add(results)

    def propose(self, count: int) -> list[Candidate]:
        if len(self.history) != self._fitted:
            with self.phases.timed(Phase.MODEL):
                self.model.fit(self.history.features, self.history.throughput)
            self._fitted = len(self.history)
        rng = np.random.default_rng([self.seed, len(self.history)])
        pool = Pool([keys(self.history.rows(n)) for n in range(len(self.arms))])
        drawn = self._first_population(rng, pool)
        for _ in range(self.config.generations):
            self._breed(rng, pool)
        return self._select(pool, drawn, count)

    # --- a round

    def _first_population(self, rng: np.random.Generator, pool: Pool) -> list[Candidate]:
        """Fills the pool with measured rows and fresh draws; returns some of the draws."""
        share = max(self.config.fresh, self.config.population // len(self.arms))
        drawn: list[Candidate] = []
        for n, arm in enumerate(self.arms):
            fresh = draw(rng, arm, share)
            elite = distinct(self.history.elite(n, self.config.elite), keys(fresh))
            self._score(pool, n, np.concatenate([fresh, elite]))
            if len(fresh):
                picks = draw_parents(rng, pool.scores(n)[: len(fresh)], EXPLORED)
                drawn += [Candidate(n, tuple(fresh[at].tolist())) for at in picks]
        rng.shuffle(drawn)
        return drawn

    def _breed(self, rng: np.random.Generator, pool: Pool) -> None:
        """One generation: parents over all arms by score, children within an arm."""
        arm_of, row_of, scores = pool.population(self.config.population)
        if not len(scores):
            return
        parents = draw_parents(rng, scores, self.config.population)
        for n, arm in enumerate(self.arms):
            of_arm = np.flatnonzero(arm_of == n)
            mothers = parents[arm_of[parents] == n]
            if not len(mothers):
                continue
            fathers = of_arm[draw_parents(rng, scores[of_arm], len(mothers))]
            rows = pool.rows(n)
            children = self._children(rng, arm, rows[row_of[mothers]], rows[row_of[fathers]])
            self._score(pool, n, distinct(legal(arm, children), pool.known(n)))

    def _children(self, rng: np.random.Generator, arm: Arm, mothers: Rows, fathers: Rows) -> Rows:
        crossed = rng.random(len(mothers)) < self.config.cross
        children = np.where(crossed[:, None], crossover(rng, arm, mothers, fathers), mothers)
        mutated = rng.random(len(children)) < self.config.mutate
        changed: Rows = np.where(mutated[:, None], arm.mutate(rng, children), children)
        return changed

    def _score(self, pool: Pool, arm: int, rows: Rows) -> None:
        if len(rows):
            self.scored += len(rows)
            pool.add(arm, rows, self.model.predict(self.arms[arm].features(rows)))

    # --- the batch

    def _select(self, pool: Pool, drawn: Sequence[Candidate], count: int) -> list[Candidate]:
        chosen = self._newcomers(pool, count // 2)
        random = round(count * self.config.explore) if len(self.history) else 0
        chosen += spread(pool, count - len(chosen) - random, chosen)
        new = [c for c in dict.fromkeys(drawn) if c not in self.history and c not in set(chosen)]
        chosen += new[: min(random, count - len(chosen))]
        return chosen + spread(pool, count - len(chosen), chosen)

    def _newcomers(self, pool: Pool, count: int) -> list[Candidate]:
        """The best row of each arm that was never measured, the most promising arms first."""
        best = [pool.best(n) for n in range(len(self.arms)) if not self.history.measured(n)]
        found = [entry for entry in best if entry is not None]
        found.sort(key=lambda entry: (-entry[0], entry[1].arm))
        return [candidate for _, candidate in found[:count]]
