"""The candidate of a space that the cost model scores highest before anything is measured."""

from __future__ import annotations

from metasched.cost.model import CostModel
from metasched.cost.trained import shipped
from metasched.search.space_protocol import SearchSpace
from metasched.search.strategies.evolutionary import Evolution


def favourite(space: SearchSpace, seed: int = 0) -> str | None:
    """The trace that the evolutionary search would measure first; None where the space has no legal candidate."""
    if space.arms.first() is None:
        return None
    found = Evolution(space.arms, CostModel(seed, shipped()), seed).propose(1)
    return space.trace(found[0]) if found else None
