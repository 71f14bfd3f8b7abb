"""Resuming from records: a strategy observes them in the batches in which they were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Protocol

from metasched.search.records.earlier_searches import EarlierSearches, locate_entries
from metasched.search.records.task_records import Entry, TaskRecords
from metasched.search.space_protocol import Observation, SearchSpace
from metasched.support.data_classes import dataclass


class Observer(Protocol):
    """What is told of results, such as a strategy."""

    def observe(self, results: Sequence[Observation]) -> None: ...


@dataclass(frozen=True)
class Resumed:
    """The state of a resumed search, whose strategy has observed all batches but the last.

    The last may have been cut short: it is proposed again. `batch` is its number, `before` the number of proposals
    before it, and `pending` the known results of it.
    """

    batch: int
    before: int
    pending: tuple[Observation, ...]


def resume(
    known: TaskRecords,
    space: SearchSpace,
    strategy: Observer,
    earlier: EarlierSearches,
    look_ahead: Callable[[int], None],
) -> Resumed:
    """Have a new strategy observe the results of other searches in this space, then each batch, by one `observe` each.

    Results that others have added since come first, too; with them, proposals may differ from those of one long run.
    `look_ahead` is called with the number of the last batch that is whole, before it is observed: that is when the
    strategy looked ahead to the next one.
    """
    shown = earlier.observations()
    if shown:
        strategy.observe(shown)
    entries = known.entries_in_order()
    # All at once: much faster than batch by batch.
    found = zip(entries, locate_entries(space, known, entries), strict=True)
    batches = [list(batch) for _, batch in groupby(found, key=lambda pair: pair[0][0])]
    if not batches:
        return Resumed(0, 0, ())
    *whole, last = batches
    for batch in whole:
        if batch is whole[-1]:
            look_ahead(batch[0][0][0])
        strategy.observe(_observations(batch))
    (number, *_), _ = last[0]
    return Resumed(number, sum(map(len, whole)), tuple(_observations(last)))


def _observations(batch: Iterable[tuple[Entry, Observation | None]]) -> list[Observation]:
    """The observations of candidates of this space; others cannot be observed."""
    return [observation for _, observation in batch if observation is not None]
