"""Parallel simulated annealing, as in AutoTVM (Chen et al. 2018, section 5).

128 chains walk under the model's score, at a temperature that falls linearly from 1 to 0; they end early when the best
rows seen no longer change. The best ones that were never measured are proposed, so that they differ in their decisions
(`search/strategy_helpers/diverse.py`), and a few at random. Chains go on from batch to batch where they stopped, for an
epoch (`search/strategy_helpers/walk_states.py`); then they begin anew among what was measured fastest and fresh draws.

AutoTVM walks over one template. Here chains also change to other structures, of those that a round looks at. And a walk
has at most 24 steps where AutoTVM's has 500: each costs a call of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from metasched.search.rounds.batch_choice import with_newcomers
from metasched.search.rounds.guided import GuidedSearch
from metasched.search.rounds.round import Round
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.space_protocol import Candidate, Strategy
from metasched.search.strategy_helpers.chains import Chains, count_chains, gather_chains, join_chains, walk_chains
from metasched.search.strategy_helpers.diverse import diverse
from metasched.search.strategy_helpers.walk_states import WalkStates
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass

# Steps between two looks at whether the best rows still change, and how many of them are looked at.
_LOOK, _HEAP = 4, 64


@dataclass(frozen=True)
class AnnealingConfig:
    """`chains` walk `steps` at most, over the rows of the `active` structures that look best.

    The temperature falls from `hot` to 0. Where the best rows have not changed in `patience` steps, the walk ends. A
    chain's first row is one of `fresh` draws or up to `elite` measured rows of each structure. `explore` is the share
    of a batch picked at random.
    """

    chains: int = 128
    steps: int = 24
    patience: int = 8
    hot: float = 1.0
    active: int = 2
    fresh: int = 256
    elite: int = 16
    explore: float = 0.05


class Annealing(GuidedSearch):
    """The strategy `annealing`."""

    def __init__(self, given: StrategyInputs, config: AnnealingConfig | None = None) -> None:
        super().__init__(given.arms, given.model, given.seed, given.phases)
        self.config = config or AnnealingConfig()
        self._kept: WalkStates[Chains] = WalkStates(self._walk_again)
        self._chains: Chains | None = None

    def propose_in_parts(self, count: int) -> Iterator[list[Candidate]]:
        self._chains = self._kept.state_before(self.lengths)
        return super().propose_in_parts(count)

    def look(self, now: Round, count: int) -> list[Candidate]:
        active, drawn = self._begin(now)
        self._kept.leave(len(now.history), self._walk(now, active, self._chains))
        return with_newcomers(now, drawn, count, self.config.explore, diverse)

    def _walk_again(self, length: int, chains: Chains | None) -> Chains:
        """Where the walk of an earlier batch ended."""
        history = self.history.until(length)
        now = self.open_round(history, SeenFeatures(history))
        return self._walk(now, self._begin(now)[0], chains)

    def _begin(self, now: Round) -> tuple[list[int], list[Candidate]]:
        return self.begin(now, self.config.active, self.config.fresh, self.config.elite)

    def _walk(self, now: Round, active: Sequence[int], chains: Chains | None) -> Chains:
        """Where chains end that go on, as far as their structures are still looked at, or begin anew."""
        kept = {n: rows for n, rows in (chains or {}).items() if n in active}
        chains = join_chains(kept, gather_chains(now, active, self.config.chains - count_chains(kept)))
        return walk_chains(now, chains, np.linspace(self.config.hot, 0.0, self.config.steps), self._until_settled(now))

    def _until_settled(self, now: Round) -> Callable[[int], bool]:
        """Whether the best rows have not changed for a while."""
        best = [-np.inf] * (self.config.patience // _LOOK)

        def is_over(step: int) -> bool:
            if step % _LOOK:
                return False
            best.append(float(now.pool.shortlist(_HEAP)[1].sum()))
            return best[-1] <= best.pop(0)

        return is_over


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `annealing`, as it is by default. Raises ValueError for a space without an arm."""
    return Annealing(given)
