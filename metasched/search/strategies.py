"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from metasched.cost.model import CostModel
from metasched.search.evolution import Evolution
from metasched.search.phases import Phases
from metasched.search.random import RandomSearch
from metasched.search.space_protocol import Arm, SearchSpace, Strategy


class StrategyName(Enum):
    """What a user calls a strategy."""

    EVOLUTIONARY = "evolutionary"
    RANDOM = "random"


def make_strategy(name: StrategyName, arms: Sequence[Arm], seed: int, phases: Phases, threads: int = 1) -> Strategy:
    """A strategy over `arms`; `threads` is what its model may use while nothing is measured."""
    if name is StrategyName.RANDOM:
        return RandomSearch(arms, seed)
    return Evolution(arms, CostModel(seed, threads), seed, phases=phases)


def opener(name: StrategyName, seed: int, threads: int = 1) -> Callable[[SearchSpace, Phases], Strategy]:
    """`make_strategy` as the tuning loop wants it."""
    return lambda space, phases: make_strategy(name, space.arms, seed, phases, threads)
