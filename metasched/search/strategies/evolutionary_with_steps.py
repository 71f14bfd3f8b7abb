"""Evolutionary search, half of whose batches are steps from the three best that were measured.

What is bred comes from anywhere that the model finds promising; steps are next to what was measured fastest, whatever
the model says of it (`search/strategy_helpers/descent.py`). So the search does not stay where the model errs, nor in a
local optimum. Rows and structures have one parent each. Steps are chosen first, and built while the others are bred.
"""

from __future__ import annotations

from collections.abc import Iterator

from metasched.search.rounds.round import Round
from metasched.search.space_protocol import Candidate, Strategy
from metasched.search.strategies.evolutionary import Evolution
from metasched.search.strategies.evolutionary_no_crossover import MUTATION_ONLY
from metasched.search.strategy_helpers.descent import Descent, DescentConfig
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class StepsConfig:
    """`share` of a batch are steps, as `descent` says."""

    share: float = 0.5
    descent: DescentConfig = DescentConfig()


class SteppingEvolution(Evolution):
    """The strategy `evolutionary_with_steps`."""

    def __init__(self, given: StrategyInputs, config: StepsConfig | None = None) -> None:
        super().__init__(given.arms, given.model, given.seed, MUTATION_ONLY, given.phases)
        self.steps = config or StepsConfig()
        self._descent = Descent(given.arms, self.steps.descent)

    def look_near(self, now: Round, count: int) -> Iterator[list[Candidate]]:
        return self._descent.choose_in_parts(now, round(count * self.steps.share))


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `evolutionary_with_steps`, as it is by default. Raises ValueError for a space without an arm."""
    return SteppingEvolution(given)
