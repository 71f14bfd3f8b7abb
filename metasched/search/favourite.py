"""The candidates of a space that the cost model scores highest before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator

from metasched.cost.model import CostModel
from metasched.cost.trained import shipped
from metasched.schedule.trace import Trace
from metasched.search.arms import SpaceArms
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.structure_breeding import StructureConfig

# A search looks at more structures, round by round. A guess is waited for: with twice as many of everything it takes
# twice as long, and what it finds is estimated to be within 4 % of as fast, on either side.
_QUICK = EvolutionConfig(population=1536, structures=StructureConfig(structures=8, bred=4))
# How many are proposed where the first is of no use.
_MORE = 16


def favourites(space: SpaceArms, seed: int = 0) -> Iterator[Trace]:
    """The traces that a short evolutionary search by the model alone likes best, the best first.

    It is made in time for the first one; who asks for another waits for the search again. There are none where no
    candidate is legal.
    """
    if space.first() is None:
        return
    evolution = Evolution(space, CostModel(seed, shipped()), seed, _QUICK)
    first = evolution.propose(1)
    yield from (space.trace_of(one) for one in first)
    yield from (space.trace_of(one) for one in evolution.propose(_MORE) if first and one not in first)
