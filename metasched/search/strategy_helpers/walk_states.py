"""What a strategy keeps between batches, such as the positions of its chains.

A search that is resumed has to propose what an uninterrupted one would have. What was kept is nowhere recorded; it
follows from the seed and the observations, so a resumed strategy walks again. As that takes as long as it took, nothing
is kept for longer than an epoch of a few batches: then it begins anew, from what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

State = TypeVar("State")
# Batches after which what is kept is forgotten.
EPOCH = 4


class WalkStates(Generic[State]):
    """The state before each batch, which follows from the observations up to there.

    Args:
        walk: what a batch leaves: from the number of observations before it, and the state, which is None at the
            beginning of an epoch.
    """

    def __init__(self, walk: Callable[[int, State | None], State]) -> None:
        self._walk = walk
        self._after: dict[int, State] = {}

    def state_before(self, lengths: Sequence[int]) -> State | None:
        """The state before the last of some batches; `lengths` are the numbers of observations before each."""
        at = len(lengths) - 1
        if at % EPOCH == 0:
            self._after.clear()
        state: State | None = None
        for length in lengths[at // EPOCH * EPOCH : at]:
            if length not in self._after:
                self._after[length] = self._walk(length, state)
            state = self._after[length]
        return state

    def leave(self, length: int, state: State) -> None:
        """Remember the state after the batch with so many observations before it."""
        self._after[length] = state
