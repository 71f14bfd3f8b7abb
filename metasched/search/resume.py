"""Going on from what is recorded: a strategy is told of it in the batches in which it came."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from metasched.search.earlier import Earlier, located
from metasched.search.known import Known
from metasched.search.space_protocol import Observation, SearchSpace, Strategy


@dataclass(frozen=True)
class Resumed:
    """Where a search stands that was told of all batches but the last.

    The last may have been cut short: it is proposed again. `batch` is its number, `before` how many proposals there
    were before it, and `pending` what is known of it.
    """

    batch: int
    before: int
    pending: tuple[Observation, ...]


def resume(known: Known, space: SearchSpace, strategy: Strategy, earlier: Earlier) -> Resumed:
    """Tell a new strategy of what other searches have shown of the space, then of each batch, a call of `observe` each.

    What others have shown since is told first, too: with it, proposals may be others than they would have been.
    """
    shown = earlier.observations()
    if shown:
        strategy.observe(shown)
    batches = [list(entries) for _, entries in groupby(known.in_order(), key=lambda entry: entry[0])]
    if not batches:
        return Resumed(0, 0, ())
    *whole, last = batches
    for entries in whole:
        strategy.observe(located(space, entries))
    return Resumed(last[0][0], sum(map(len, whole)), tuple(located(space, last)))
