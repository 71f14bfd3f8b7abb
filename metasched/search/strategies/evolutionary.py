"""Evolutionary search over the rows of several arms, guided by a model.

Each round starts from the fastest rows measured and fresh draws, lets them breed for a few generations under the
model's score, and proposes the best that were never measured. It follows Ansor and MetaSchedule (Zheng et al. 2020;
Shao et al. 2022): a share of measured rows in the first population, parents drawn by score, a share of random picks. It
differs in that crossover exists, parents are drawn by rank, arms compete for parents in one population, and a batch is
spread out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from metasched.cost.features import Features
from metasched.cost.model import Model
from metasched.search.history import History
from metasched.search.phases import Phase, Phases
from metasched.search.population import crossover, distinct, draw, draw_parents, keys, legal
from metasched.search.selection import Pool, spread
from metasched.search.space_protocol import Arm, Candidate, Observation, Rows, Strategy
from metasched.search.strategy import SHORT_LIST, StrategyInputs

# Rows and their features.
Scored = tuple[Rows, Features]

# Draws that a batch's random picks are taken from.
EXPLORED = 64
# An arm whose best row is predicted to take so many times as long as the best of all is not tried for its own sake.
HOPELESS = 2.5
_PROBING = 1


@dataclass(frozen=True)
class EvolutionConfig:
    """How a round goes.

    Of every arm `probe` draws are scored; the `active` arms that look best breed. There, `population` fresh draws and
    up to `elite` measured rows of each arm go through `generations`. A child is mutated with probability `mutate` and
    has two parents with probability `cross`. `explore` is the share of a batch picked at random among the draws, the
    better ones more often, after the short list of the first candidates.
    """

    population: int = 3072
    generations: int = 4
    probe: int = 64
    active: int = 3
    elite: int = 32
    mutate: float = 0.85
    cross: float = 0.4
    explore: float = 0.2

    def __post_init__(self) -> None:
        if min(self.population, self.probe, self.active) < 1 or min(self.generations, self.elite) < 0:
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
        self._probes: dict[int, Scored] = {}
        self._looks: set[int] = set()  # of what was measured
        self._looked_at = 0
        self.scored = 0

    def observe(self, results: Sequence[Observation]) -> None:
        self.history.add(results)

    def propose(self, count: int) -> list[Candidate]:
        if len(self.history) != self._fitted:
            with self.phases.timed(Phase.MODEL):
                self.model.fit(self.history.times)
            self._fitted = len(self.history)
        rng = np.random.default_rng([self.seed, len(self.history)])
        pool = Pool([keys(self.history.rows(n)) for n in range(len(self.arms))])
        self._add(pool, {n: self._probe(n) for n in range(len(self.arms))})
        active = self._active(pool)
        self._score(pool, {n: self._start(rng, pool, n, len(active)) for n in active})
        drawn = self._some(rng, pool)
        for _ in range(self.config.generations):
            self._breed(rng, pool, active)
        return self._select(pool, drawn, count)

    # --- a round

    def _probe(self, arm: int) -> Scored:
        """A few draws of an arm, the same in every round: they tell which arms are promising."""
        found = self._probes.get(arm)
        if found is None:
            rng = np.random.default_rng([self.seed, arm, _PROBING])
            rows = draw(rng, self.arms[arm], self.config.probe)
            self.scored += len(rows)
            found = self._probes[arm] = (rows, self.arms[arm].features(rows))
        return found

    def _active(self, pool: Pool) -> list[int]:
        """The most promising arms by prediction or measurement: those that breed in this round."""
        hope = [(-max(pool.highest(n), self.history.best(n)), n) for n in range(len(self.arms)) if pool.filled(n)]
        return sorted(n for _, n in sorted(hope)[: self.config.active])

    def _start(self, rng: np.random.Generator, pool: Pool, arm: int, active: int) -> Rows:
        """Rows that an active arm begins a round with: the fastest measured, and fresh draws."""
        fresh = draw(rng, self.arms[arm], max(1, self.config.population // active))
        elite = self.history.elite(arm, self.config.elite)
        return distinct(np.concatenate([elite, fresh]), pool.known(arm))

    def _some(self, rng: np.random.Generator, pool: Pool) -> list[Candidate]:
        """Some of the draws, the better ones more often."""
        arm_of, row_of, scores = pool.population(range(len(self.arms)))
        picks = draw_parents(rng, scores, EXPLORED) if len(scores) else np.empty(0, np.int64)
        return [Candidate(int(arm_of[at]), tuple(pool.rows(int(arm_of[at]))[row_of[at]].tolist())) for at in picks]

    def _breed(self, rng: np.random.Generator, pool: Pool, active: Sequence[int]) -> None:
        """One generation: parents over the active arms by score, children within an arm."""
        arm_of, row_of, scores = pool.population(active, self.config.population)
        if not len(scores):
            return
        parents = draw_parents(rng, scores, self.config.population)
        born: dict[int, Rows] = {}
        for n in active:
            of_arm = np.flatnonzero(arm_of == n)
            mothers = parents[arm_of[parents] == n]
            if len(mothers):
                fathers = of_arm[draw_parents(rng, scores[of_arm], len(mothers))]
                rows = pool.rows(n)
                children = self._children(rng, self.arms[n], rows[row_of[mothers]], rows[row_of[fathers]])
                born[n] = distinct(legal(self.arms[n], children), pool.known(n))
        self._score(pool, born)

    def _children(self, rng: np.random.Generator, arm: Arm, mothers: Rows, fathers: Rows) -> Rows:
        crossed = rng.random(len(mothers)) < self.config.cross
        children = np.where(crossed[:, None], crossover(rng, arm, mothers, fathers), mothers)
        mutated = rng.random(len(children)) < self.config.mutate
        changed: Rows = np.where(mutated[:, None], arm.mutate(rng, children), children)
        return changed

    def _score(self, pool: Pool, rows: Mapping[int, Rows]) -> None:
        self.scored += sum(len(some) for some in rows.values())
        self._add(pool, {n: (some, self.arms[n].features(some)) for n, some in rows.items() if len(some)})

    def _add(self, pool: Pool, found: Mapping[int, Scored]) -> None:
        """Scores rows of several arms in one call of the model."""
        if not found:
            return
        scores = self.model.predict(np.concatenate([features for _, features in found.values()]))
        first = 0
        for n, (rows, _) in found.items():
            if len(rows):
                pool.add(n, rows, scores[first : first + len(rows)])
            first += len(rows)

    # --- the batch

    def _select(self, pool: Pool, drawn: Sequence[Candidate], count: int) -> list[Candidate]:
        chosen = self._newcomers(pool)[: count // 2]
        random = round(count * self.config.explore) if len(self.history) >= SHORT_LIST else 0
        chosen += spread(pool, count - len(chosen) - random, chosen, lambda given: self._twins(given, chosen))
        if random:
            new = [c for c in dict.fromkeys(drawn) if c not in self.history and c not in set(chosen)]
            chosen += self._without_twins(new, chosen)[: min(random, count - len(chosen))]
        return chosen + spread(pool, count - len(chosen), chosen, lambda given: self._twins(given, chosen))

    def _twins(self, candidates: Sequence[Candidate], taken: Sequence[Candidate] = ()) -> list[bool]:
        """Whether each has the features of an earlier one, of one taken, or of one measured.

        Its code is the same, then, but for rare exceptions: many a number means nothing where a loop is short.
        """
        new = self.history.features[self._looked_at :]
        self._looks.update(hash(row.tobytes()) for row in new)
        self._looked_at += len(new)
        seen = self._looks.union(self._looks_of(taken))
        twins = []
        for look in self._looks_of(candidates):
            twins.append(look in seen)
            seen.add(look)
        return twins

    def _without_twins(self, candidates: Sequence[Candidate], taken: Sequence[Candidate] = ()) -> list[Candidate]:
        return [c for c, is_twin in zip(candidates, self._twins(candidates, taken), strict=True) if not is_twin]

    def _looks_of(self, candidates: Sequence[Candidate]) -> list[int]:
        """A number for the features of each candidate, which is equal for equal ones."""
        found: dict[Candidate, int] = {}
        for arm in sorted({candidate.arm for candidate in candidates}):
            of_arm = [candidate for candidate in candidates if candidate.arm == arm]
            rows = np.array([candidate.row for candidate in of_arm], dtype=np.int64).reshape(len(of_arm), -1)
            found.update(zip(of_arm, (hash(row.tobytes()) for row in self.arms[arm].features(rows)), strict=True))
        return [found[candidate] for candidate in candidates]

    def _newcomers(self, pool: Pool) -> list[Candidate]:
        """The best row of each arm that was never measured and may be good, the most promising arms first."""
        best = [pool.best(n) for n in range(len(self.arms))]
        found = [entry for entry in best if entry is not None]
        found.sort(key=lambda entry: (-entry[0], entry[1].arm))
        good = [c for score, c in found if score >= found[0][0] - np.log2(HOPELESS)]
        return self._without_twins([c for c in good if not self.history.measured(c.arm)])


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `evolutionary`, as it is by default. Raises ValueError for a space without an arm."""
    return Evolution(given.arms, given.model, given.seed, phases=given.phases)
