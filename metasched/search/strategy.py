"""Strategies by name: ours, a file each in `strategies/`, and those of other packages (`metasched.strategies`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from metasched.cost.model import Model
from metasched.errors import MetaschedError
from metasched.search.phases import Phases
from metasched.search.space_protocol import Arms, Strategy
from metasched.support.registry import Registry, UnfitError

GROUP = "metasched.strategies"
DEFAULT_STRATEGY = "evolutionary"
# The first candidates of a search: what looks best without a doubt, and nothing for the sake of learning. So a search
# of no more trials is as good as it can be, and one of many has lost little.
SHORT_LIST = 16


@dataclass(frozen=True)
class StrategyInputs:
    """What a strategy is made from.

    Attributes:
        arms: what to search: structures, which are made when they are asked for.
        model: what scores rows, for this strategy alone; it is untrained, and the strategy trains it.
        seed: with the observations, decides every proposal.
        phases: where the strategy counts the time that training takes.
    """

    arms: Arms
    model: Model
    seed: int = 0
    phases: Phases = field(default_factory=Phases)


MakeStrategy = Callable[[StrategyInputs], Strategy]


def _checked(value: object) -> MakeStrategy:
    if not callable(value):
        raise UnfitError(f"it is {value!r}, and not a function of StrategyInputs")
    make: MakeStrategy = value
    return make


STRATEGIES = Registry(GROUP, "strategy", _checked, MetaschedError, "metasched.search.strategies", "strategy")


def strategy_of(given: str | MakeStrategy) -> MakeStrategy:
    """What makes the strategy of a name, or what is given. Raises MetaschedError for a name that is not there."""
    return STRATEGIES.get(given) if isinstance(given, str) else given
