"""Strategies by name: ours, a file each in `strategies/`, those of other packages (`metasched.strategies`), and those
in files of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from metasched.cost.model import Model
from metasched.errors import MetaschedError
from metasched.search.phases import Phases
from metasched.search.space_protocol import Arms, Strategy
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing
from metasched.support.python_file import names_of
from metasched.support.registry import Product, Registry, checked_function

GROUP = "metasched.strategies"
DEFAULT_STRATEGY = "evolutionary_with_steps"
# What makes the strategy in a file, where no name is given, as in ours.
_IN_FILE = "strategy"


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


def _require_maker(value: object) -> MakeStrategy:
    return checked_function(value, "StrategyInputs", "the StrategyInputs")


STRATEGIES = Registry(
    GROUP,
    "strategy",
    _require_maker,
    MetaschedError,
    package="metasched.search.strategies",
    attribute=_IN_FILE,
    product=Product(
        "StrategyInputs",
        ("propose", "observe"),
        "return an object with `propose(count)`, a list of candidates, and `observe(results)`",
    ),
)


def strategy_of(given: str | MakeStrategy) -> MakeStrategy:
    """What makes the strategy of a name or of a file (`FILE.py`, `FILE.py:NAME`; without a name `strategy`), or what is
    given.

    Raises MetaschedError for a name that is not there, and for what is not a function.
    """
    if not isinstance(given, str):
        return STRATEGIES.resolve(given)
    file, separator, name = given.rpartition(":")
    if given.endswith(".py"):
        file, separator, name = given, ":", _IN_FILE
    return _of_file(Path(file), name) if separator and file.endswith(".py") else STRATEGIES.get(given)


def _of_file(path: Path, name: str) -> MakeStrategy:
    names = names_of(path, MetaschedError)
    if name not in names:
        made = sorted(key for key, value in names.items() if callable(value) and not key.startswith("_"))
        raise MetaschedError(f"{path} has no `{name}`", hint=f"of what it has, {listing(made)} can be called")
    return STRATEGIES.require_fit(f"`{name}` of {path}", names[name])
