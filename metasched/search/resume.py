"""Going on from what is recorded: a strategy is told of it in the batches in which it came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from metasched.search.earlier import Earlier, located
from metasched.search.known import Entry, Known
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
    entries = known.in_order()
    found = zip(entries, located(space, entries), strict=True)  # at once: that is much faster than batch by batch
    batches = [list(batch) for _, batch in groupby(found, key=lambda pair: pair[0][0])]
    if not batches:
        return Resumed(0, 0, ())
    *whole, last = batches
    for batch in whole:
        strategy.observe(_observations(batch))
    (number, *_), _ = last[0]
    return Resumed(number, sum(map(len, whole)), tuple(_observations(last)))


def _observations(batch: Iterable[tuple[Entry, Observation | None]]) -> list[Observation]:
    """Those of candidates of this space; others teach nothing."""
    return [observation for _, observation in batch if observation is not None]
