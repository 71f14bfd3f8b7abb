"""Evolutionary search over structures and their numbers, guided by a model.

Each round looks at the structures that were measured fastest, at some drawn once for all, and at offspring of those
that look best: one decision changed, or decisions of two parents. How good a structure can be is what its best row was
measured or is predicted to take, of a few draws and of its parent's best rows carried over. The best few structures get
a population each. So nothing is left out for good, and what is made in a round is bounded; a structure that was not
measured is forgotten, and bred again if its parents stay good.

The rows of these start from the fastest measured and fresh draws, breed for a few generations under the model's score,
and the best that were never measured are proposed. It follows Ansor and MetaSchedule (Zheng et al. 2020; Shao et al.
2022): a share of measured rows in the first population, parents drawn by score, a share of random picks. It differs in
that structures breed too, crossover exists, parents are drawn by rank, arms compete for parents in one population, and
a batch is spread out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from metasched.cost.features import Features
from metasched.cost.model import Model
from metasched.search.history import History
from metasched.search.looks import Looks
from metasched.search.phases import Phase, Phases
from metasched.search.population import Keys, crossover, distinct, draw, draw_arms, draw_parents, keys, legal
from metasched.search.selection import Pool, spread
from metasched.search.space_protocol import Arm, Arms, Candidate, Observation, Rows, Strategy
from metasched.search.strategy import SHORT_LIST, StrategyInputs
from metasched.support.cached import cached_property

_NONE: Keys = np.empty(0, np.uint64)
# Rows and their features.
Scored = tuple[Rows, Features]

# Draws that a batch's random picks are taken from.
EXPLORED = 64
# An arm whose best row is predicted to take so many times as long as the best of all is not tried for its own sake: as
# long as little was measured, and later.
HOPELESS = 2.5
HOPELESS_LATER = 1.5
# Rows of a parent that a new arm is judged by, and arms that an active one takes fast rows from.
_ADOPTED = 32
_DONORS = 2
# How often more structures are drawn where a round finds nothing new.
_RETRIES = 4
_PROBING, _FIRST, _BORN = 1, 2, 3


@dataclass(frozen=True)
class EvolutionConfig:
    """How a round goes.

    It looks at `structures` that were drawn once, at as many of those measured fastest, and breeds `bred` new ones in
    `steps`, with two parents with probability `cross_arms`. Of every arm `probe` draws are scored; the rows of the
    `active` arms that look best breed. There, `population` fresh draws and
    up to `elite` measured rows of each arm go through `generations`. A child is mutated with probability `mutate` and
    has two parents with probability `cross`. `explore` is the share of a batch picked at random among the draws, the
    better ones more often, after the short list of the first candidates.
    """

    population: int = 3072
    generations: int = 4
    structures: int = 12
    bred: int = 6
    steps: int = 2
    cross_arms: float = 0.3
    probe: int = 64
    active: int = 3
    elite: int = 32
    mutate: float = 0.85
    cross: float = 0.4
    explore: float = 0.2

    def __post_init__(self) -> None:
        if min(self.population, self.probe, self.active, self.structures, self.steps) < 1 or (
            min(self.generations, self.elite, self.bred) < 0
        ):
            raise ValueError(f"populations are positive: {self}")
        if not all(0 <= share <= 1 for share in (self.mutate, self.cross, self.cross_arms, self.explore)):
            raise ValueError(f"probabilities lie between 0 and 1: {self}")


class Evolution:
    """The strategy `evolutionary`.

    Args:
        arms: what to search.
        model: trained here on what is observed; until then its untrained score ranks.
        seed: with the observations, decides every proposal.
        config: how a round goes.
        phases: where the time that training takes is counted.
    """

    def __init__(
        self,
        arms: Arms,
        model: Model,
        seed: int,
        config: EvolutionConfig | None = None,
        phases: Phases | None = None,
    ) -> None:
        if arms.first() is None:
            raise ValueError("nothing to search: the space has no sketch")
        self.arms = arms
        self.model = model
        self.seed = seed
        self.config = config or EvolutionConfig()
        self.phases = phases or Phases()
        self.history = History(arms)
        self._fitted = 0
        self._probes: dict[int, Scored] = {}
        self._looks = Looks(self.history)
        self.scored = 0

    def observe(self, results: Sequence[Observation]) -> None:
        self.history.add(results)

    def propose(self, count: int) -> list[Candidate]:
        if len(self.history) != self._fitted:
            with self.phases.timed(Phase.MODEL):
                self.model.fit(self.history.times)
            self._fitted = len(self.history)
        rng = np.random.default_rng([self.seed, len(self.history)])
        pool = Pool(lambda arm: keys(self.history.rows(arm)))
        self._looks.begin_round()
        self._add(pool, {n: self._probe(n) for n in self._parents()})
        self._breed_arms(rng, pool)
        chosen = self._round(rng, pool, count)
        for _ in range(_RETRIES):
            if chosen:
                break
            more = self._others(rng, pool)
            self._add(pool, {n: self._probe(n) for n in more})
            chosen = self._round(rng, pool, count) if more else []
        return chosen

    # --- structures

    @cached_property
    def _first(self) -> list[int]:
        """Structures from the prior, the same in every round."""
        return draw_arms(np.random.default_rng([self.seed, _FIRST]), self.arms, self.config.structures)

    def _parents(self) -> list[int]:
        """The arms that a round begins with: those measured fastest, and the first ones."""
        return list(dict.fromkeys([*self.history.arms[: self.config.structures], *self._first]))

    def _others(self, rng: np.random.Generator, pool: Pool) -> list[int]:
        """Arms from the prior that are not in the pool."""
        drawn = (self.arms.draw(rng) for _ in range(self.config.structures))
        return list(dict.fromkeys(n for n in drawn if n is not None and not pool.filled(n)))

    def _breed_arms(self, rng: np.random.Generator, pool: Pool) -> None:
        """Add new arms to the pool, bred from those that look best, in a few steps: children may be parents."""
        each = -(-self.config.bred // self.config.steps)
        for _ in range(self.config.steps):
            ranked = self._ranked(pool)
            born: dict[int, Scored] = {}
            for _ in range(2 * each if ranked else 0):
                mother, father = (ranked[at] for at in draw_parents(rng, -np.arange(len(ranked), dtype=np.float64), 2))
                crossed = rng.random() < self.config.cross_arms
                child = self.arms.cross(rng, mother, father) if crossed else self.arms.mutate(rng, mother)
                if child is not None and child not in born and not pool.filled(child) and len(born) < each:
                    born[child] = self._newborn(pool, mother, child)
            self._add(pool, born)

    def _ranked(self, pool: Pool) -> list[int]:
        """The arms of the pool, the most promising first, by prediction or measurement."""
        hope = [(-max(pool.highest(n), self.history.best(n)), place, n) for place, n in enumerate(pool.arms)]
        return [n for _, _, n in sorted(hope)]

    def _newborn(self, pool: Pool, parent: int, arm: int) -> Scored:
        """What a new arm is judged by: draws, and its parent's best rows."""
        rng = self._stream(arm, _BORN, len(self.history))
        best = pool.rows(parent)[np.argsort(-pool.scores(parent), kind="stable")[:_ADOPTED]]
        donated = np.concatenate([self.history.elite(parent, _ADOPTED // 2), best])[:_ADOPTED]
        adopted = self._adopted(rng, arm, parent, donated)
        rows = distinct(np.concatenate([adopted, draw(rng, self.arms[arm], self.config.probe // 2)]), _NONE)
        self.scored += len(rows)
        return rows, self.arms[arm].features(rows)

    def _adopted(self, rng: np.random.Generator, arm: int, donor: int, rows: Rows) -> Rows:
        return legal(self.arms[arm], self.arms[arm].adopt(rng, self.arms[donor], rows))

    def _stream(self, arm: int, *purpose: int) -> np.random.Generator:
        """Random numbers for an arm: of its structure, as its number differs between processes."""
        return np.random.default_rng([self.seed, crc32(self.arms[arm].name.encode()), *purpose])

    # --- a round

    def _round(self, rng: np.random.Generator, pool: Pool, count: int) -> list[Candidate]:
        """Breed the rows of the best arms, and choose a batch."""
        active = self._ranked(pool)[: self.config.active]
        self._score(pool, {n: self._start(rng, pool, n, active) for n in active})
        drawn = self._some(rng, pool)
        for _ in range(self.config.generations):
            self._breed(rng, pool, active)
        return self._select(pool, drawn, count)

    def _probe(self, arm: int) -> Scored:
        """A few draws of an arm, the same in every round: they tell which arms are promising."""
        found = self._probes.get(arm)
        if found is None:
            rows = draw(self._stream(arm, _PROBING), self.arms[arm], self.config.probe)
            self.scored += len(rows)
            found = self._probes[arm] = (rows, self.arms[arm].features(rows))
        return found

    def _start(self, rng: np.random.Generator, pool: Pool, arm: int, active: Sequence[int]) -> Rows:
        """Rows that an active arm begins a round with: its fastest measured, those of others, and fresh draws."""
        fresh = draw(rng, self.arms[arm], max(1, self.config.population // len(active)))
        elite = self.history.elite(arm, self.config.elite)
        donors = [n for n in self.history.arms[: _DONORS + 1] if n != arm][:_DONORS]
        adopted = [self._adopted(rng, arm, n, self.history.elite(n, self.config.elite)) for n in donors]
        return distinct(np.concatenate([elite, *adopted, fresh]), pool.known(arm))

    def _some(self, rng: np.random.Generator, pool: Pool) -> list[Candidate]:
        """Some of the draws, the better ones more often."""
        arm_of, row_of, scores = pool.population(pool.arms)
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
        for n, (rows, features) in found.items():
            if len(rows):
                pool.add(n, rows, scores[first : first + len(rows)])
                self._looks.add(n, rows, features)
            first += len(rows)

    # --- the batch

    def _select(self, pool: Pool, drawn: Sequence[Candidate], count: int) -> list[Candidate]:
        later = len(self.history) >= SHORT_LIST
        chosen = (
            self._newcomers(pool, HOPELESS_LATER, count // 4) if later else self._newcomers(pool, HOPELESS, count // 2)
        )
        random = round(count * self.config.explore) if later else 0
        chosen += spread(pool, count - len(chosen) - random, chosen, lambda given: self._looks.twins(given, chosen))
        if random:
            new = [c for c in dict.fromkeys(drawn) if c not in self.history and c not in set(chosen)]
            chosen += self._without_twins(new, chosen)[: min(random, count - len(chosen))]
        return chosen + spread(pool, count - len(chosen), chosen, lambda given: self._looks.twins(given, chosen))

    def _without_twins(self, candidates: Sequence[Candidate], taken: Sequence[Candidate] = ()) -> list[Candidate]:
        return [c for c, is_twin in zip(candidates, self._looks.twins(candidates, taken), strict=True) if not is_twin]

    def _newcomers(self, pool: Pool, hopeless: float, count: int) -> list[Candidate]:
        """The best row of each of some arms that were never measured and may be good, the most promising first."""
        best = [entry for entry in map(pool.best, pool.arms) if entry is not None]
        found = sorted(best, key=lambda entry: -entry[0])
        good = [c for score, c in found if score >= found[0][0] - np.log2(hopeless)]
        new = [c for c in good if not self.history.measured(c.arm)]
        return self._without_twins(new[: 2 * count])[:count]


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `evolutionary`, as it is by default. Raises ValueError for a space without an arm."""
    return Evolution(given.arms, given.model, given.seed, phases=given.phases)
