"""Metropolis-Hastings over schedules, as MetaSchedule's paper has it (Shao et al. 2022, section 4).

The posterior of a schedule is its prior times exp(score / temperature): what the model says is the evidence. Many short
chains begin at draws and at what was measured fastest; a proposal changes a random variable, and is accepted with
probability min(1, ratio of the evidence), while the temperature falls geometrically. The chains' last positions are a
sample of the posterior, and of it a batch is taken. (The released MetaSchedule has no temperature: it breeds.)

A change is taken to be as likely as its reverse. Nothing is kept between batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.search.rounds.batch_choice import unlike_best, with_newcomers
from metasched.search.rounds.guided import GuidedSearch
from metasched.search.rounds.population import keys
from metasched.search.rounds.round import Round
from metasched.search.rounds.selection import Pool, choose_unlike
from metasched.search.space_protocol import Candidate, Strategy
from metasched.search.strategy_helpers.chains import Chains, gather_chains, walk_chains
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class MetropolisConfig:
    """`chains` walk `steps` over the rows of the `active` structures that look best.

    The temperature falls from `hot` to `cold`. A chain's first row is one of `fresh` draws or up to `elite` measured
    rows of each structure. `explore` is the share of a batch picked at random.
    """

    chains: int = 384
    steps: int = 16
    hot: float = 1.0
    cold: float = 0.05
    active: int = 3
    fresh: int = 1024
    elite: int = 32
    explore: float = 0.1


class Metropolis(GuidedSearch):
    """The strategy `metropolis`."""

    def __init__(self, given: StrategyInputs, config: MetropolisConfig | None = None) -> None:
        super().__init__(given.arms, given.model, given.seed, given.phases)
        self.config = config or MetropolisConfig()

    def look(self, now: Round, count: int) -> list[Candidate]:
        config = self.config
        active, drawn = self.begin(now, config.active, config.fresh, config.elite)
        chains = gather_chains(now, active, config.chains)
        chains = walk_chains(now, chains, np.geomspace(config.hot, config.cold, config.steps))
        return with_newcomers(now, drawn, count, config.explore, _Sample(now, chains).choose)


class _Sample:
    """The last positions of chains, with their scores."""

    def __init__(self, now: Round, chains: Chains) -> None:
        self._pool = Pool(lambda arm: keys(now.history.rows(arm)))
        for n, scores in now.score(chains).items():
            rows, first = np.unique(chains[n], axis=0, return_index=True)
            self._pool.add(n, rows, scores[first])

    def choose(self, now: Round, count: int, taken: Sequence[Candidate]) -> list[Candidate]:
        """Up to `count` more of them that are unlike; where there are no more, of all that was looked at."""
        chosen = choose_unlike(self._pool, count, taken, lambda given: now.twins(given, taken))
        return chosen + unlike_best(now, count - len(chosen), [*taken, *chosen])


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `metropolis`, as it is by default. Raises ValueError for a space without an arm."""
    return Metropolis(given)
