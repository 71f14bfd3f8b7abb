"""Which features a trained model goes by, in groups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from metasched.cost.features import NAMES
from metasched.cost.groups import GROUPS
from metasched.cost.learning.trained import TrainedModel

_HEAVIEST, _SECOND = "s0", "s1"


@cache
def groups() -> Mapping[str, str]:
    """The group of each feature, by name: of the heaviest statement those that are computed together."""
    of_statement = {name: group.compute.__name__ for group in GROUPS for name in group.names}
    found = {}
    for name in NAMES:
        place, _, own = name.partition(".")
        if place == _HEAVIEST:
            found[name] = of_statement.get(own, "buffers")
        else:
            found[name] = "second statement" if place == _SECOND else "whole program"
    return found


def importances(model: TrainedModel) -> dict[str, float]:
    """The share of each group in what the splits of a model gained, the largest first; empty where none are known."""
    total = sum(gain for _, gain in model.facts.gains)
    shares: dict[str, float] = {}
    for name, gain in model.facts.gains:
        group = groups()[name]
        shares[group] = shares.get(group, 0.0) + gain / total
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
