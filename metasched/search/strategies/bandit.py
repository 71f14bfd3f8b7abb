"""A bandit over other strategies, which proposes each batch by the one that has been worth most: OpenTuner's.

Ansel et al. 2014, section 3: each strategy's credit is the area under the curve of its successes, of the last
`window` batches, so that recent ones count more: with V_i = 1 where the i-th of its n batches found a new best, the sum
of i * V_i over n (n + 1) / 2. The one is taken with the highest credit + C * sqrt(2 log(all batches) / its batches);
one that was not taken yet comes first.

All observe everything. Which one proposed a batch is not recorded: it follows from the observations before it, so
credits are worked out again when a search is resumed. The batch with which a search begins gives no credit: whatever it
holds is the best so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, log, sqrt

from metasched.search.space_protocol import Candidate, Observation, Strategy
from metasched.search.strategy_helpers.shared_model import SharedModel
from metasched.search.strategy_registry import STRATEGIES, StrategyInputs
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class BanditConfig:
    """The names of the strategies to choose from, in the order in which they are tried first; OpenTuner's constants."""

    among: tuple[str, ...] = ("evolutionary", "annealing", "beam", "droplet", "mcts")
    exploration: float = 0.05
    window: int = 500


class Bandit:
    """The strategy `bandit`. Those it chooses from share its model, each as it trained it."""

    def __init__(self, given: StrategyInputs, config: BanditConfig | None = None) -> None:
        self.config = config or BanditConfig()
        shared = SharedModel(given.model)
        self._strategies = {
            name: STRATEGIES.get_own(name)(replace(given, model=shared.add_user())) for name in self.config.among
        }
        self._uses: list[tuple[str, bool]] = []
        self._seen = 0
        self._best = inf

    def observe(self, results: Sequence[Observation]) -> None:
        fastest = min((r.seconds for r in results if r.seconds is not None and not r.bound), default=inf)
        if results and self._seen:
            self._uses.append((self.chosen_strategy(), fastest < self._best))
        self._seen += len(results)
        self._best = min(self._best, fastest)
        for strategy in self._strategies.values():
            strategy.observe(results)

    def propose(self, count: int) -> list[Candidate]:
        """The candidates of the strategy that is taken; where it finds none, of the others in turn."""
        taken = self.chosen_strategy()
        for name in [taken, *(name for name in self.config.among if name != taken)]:
            found = self._strategies[name].propose(count)
            if found:
                return found
        return []

    def chosen_strategy(self) -> str:
        """The name of the strategy that proposes the next batch."""
        return max(self.config.among, key=self._promise)

    def _promise(self, name: str) -> float:
        uses = self._uses[-self.config.window :]
        own = [found for used, found in uses if used == name]
        if not own:
            return inf
        return self.credit(own) + self.config.exploration * sqrt(2 * log(len(uses)) / len(own))

    @staticmethod
    def credit(successes: Sequence[bool]) -> float:
        """The area under the curve of successes, oldest first: between 0 and 1."""
        area = sum(place for place, found in enumerate(successes, start=1) if found)
        return 2 * area / (len(successes) * (len(successes) + 1))


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `bandit`, as it is by default. Raises ValueError for a space without an arm."""
    return Bandit(given)
