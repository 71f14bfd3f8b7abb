"""An evolution that somebody waits for: it ends where it gains no more, or has no hope to."""

from __future__ import annotations

from math import log2

from metasched.cost.model import Model
from metasched.search.rounds.batch_choice import with_newcomers
from metasched.search.rounds.round import Round
from metasched.search.space_protocol import Arms, Candidate
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig

# Where the best of all structures that were looked at, some draws of each, is expected to take more than so many times
# as long as what is known, rows do not breed. Of 48 spaces of five networks that were looked at beside something known,
# the twenty whose best came to be expected to take less than .9 of the time had 1.18 at worst then.
_HOPELESS_RATIO = 1.2
# Generations end after so many, one after the other, each of which gained less than this. Of the same networks' 156
# spaces, four are expected to take .01 to .06 longer than after all generations.
_LEAST_GAIN = 1.01
_VAIN_GENERATIONS = 2


class QuickEvolution(Evolution):
    """The strategy `evolutionary` without measurements; `known` is the score of what is there without it, if there is
    something.
    """

    def __init__(self, arms: Arms, model: Model, seed: int, config: EvolutionConfig, known: float | None) -> None:
        super().__init__(arms, model, seed, config)
        self._known = known

    def look(self, now: Round, count: int) -> list[Candidate]:
        self.structures.begin(now)
        self.structures.breed(now)
        if not self._is_hopeless(now):
            self._breed_while_it_gains(now)
        return with_newcomers(now, (), count, explore=0.0)

    def _is_hopeless(self, now: Round) -> bool:
        return self._known is not None and _highest_score(now) < self._known - log2(_HOPELESS_RATIO)

    def _breed_while_it_gains(self, now: Round) -> None:
        config = self.config
        active, _ = self.open_best(now, config.active, config.population, config.elite)
        best, in_vain = _highest_score(now), 0
        for _ in range(config.generations):
            self._breed(now, active)
            before, best = best, _highest_score(now)
            in_vain = in_vain + 1 if best < before + log2(_LEAST_GAIN) else 0
            if in_vain == _VAIN_GENERATIONS:
                break


def _highest_score(now: Round) -> float:
    """The best score of a round so far; -inf where no structure has a row."""
    scores = (now.pool.scores(arm) for arm in now.pool.arms)
    return max((float(some.max()) for some in scores if len(some)), default=float("-inf"))
