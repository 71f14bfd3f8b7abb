"""Coordinate descent from the three best that were measured (the Droplet algorithm: Canesche et al. 2024).

A batch is next to the best measured, as near as there is anything left (`search/strategy_helpers/descent.py`). What is
measured faster is where the next batch descends from; a candidate all of whose surroundings were tried gives way to
others.

Droplet measures neighbours in an order of their own and compares times by a test of significance. Here the model says
which of them come first, and all that is needed of the past is what was measured: nothing is kept between batches. The
first batch, before anything was measured, is what the model scores highest among draws.
"""

from __future__ import annotations

from metasched.search.rounds.batch_choice import unlike_best
from metasched.search.rounds.guided import GuidedSearch
from metasched.search.rounds.round import Round
from metasched.search.space_protocol import Candidate, Strategy
from metasched.search.strategy_helpers.descent import Descent, DescentConfig
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class DropletConfig:
    """How the strategy descends; `fresh` draws of the `active` structures that look best come before anything is
    measured.
    """

    descent: DescentConfig = DescentConfig()
    active: int = 3
    fresh: int = 3072


class Droplet(GuidedSearch):
    """The strategy `droplet`."""

    def __init__(self, given: StrategyInputs, config: DropletConfig | None = None) -> None:
        super().__init__(given.arms, given.model, given.seed, given.phases)
        self.config = config or DropletConfig()
        self._descent = Descent(given.arms, self.config.descent)

    def look(self, now: Round, count: int) -> list[Candidate]:
        if now.history.fastest_candidates(1):
            return self._descent.choose(now, count)
        self.begin(now, self.config.active, self.config.fresh, 0)
        return unlike_best(now, count, [])


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `droplet`, as it is by default. Raises ValueError for a space without an arm."""
    return Droplet(given)
