"""The candidate of a space that the untrained cost model scores highest."""

from __future__ import annotations

from metasched.cost.model import CostModel
from metasched.search.space_protocol import SearchSpace
from metasched.search.strategies.evolutionary import Evolution


def favourite(space: SearchSpace, seed: int = 0) -> str | None:
    """The trace that the evolutionary search would measure first; None where the space has no legal candidate."""
    if not space.arms:
        return None
    found = Evolution(space.arms, CostModel(seed), seed).propose(1)
    return space.trace(found[0]) if found else None
