"""What the untrained cost model likes best of a space."""

from __future__ import annotations

from metasched.search.phases import Phases
from metasched.search.space_protocol import SearchSpace
from metasched.search.strategies import StrategyName, make_strategy


def favourite(space: SearchSpace, seed: int = 0) -> str | None:
    """The trace that the evolutionary search would measure first; None where the space has no legal candidate."""
    if not space.arms:
        return None
    strategy = make_strategy(StrategyName.EVOLUTIONARY, space.arms, seed, Phases())
    found = strategy.propose(1)
    return space.trace(found[0]) if found else None
