"""Evolutionary search whose rows and structures have one parent each, as in the released Ansor and MetaSchedule."""

from __future__ import annotations

from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.space_protocol import Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import StrategyInputs

MUTATION_ONLY = EvolutionConfig(cross=0.0, structures=StructureConfig(cross=0.0))


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `evolutionary_no_crossover`. Raises ValueError for a space without an arm."""
    return Evolution(given.arms, given.model, given.seed, MUTATION_ONLY, given.phases)
