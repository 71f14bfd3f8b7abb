"""Going on from what is recorded: a strategy is told of it in the batches in which it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from metasched.database.base import Database
from metasched.database.record import DatabaseError, Record
from metasched.errors import LanguageError
from metasched.search.known import Known
from metasched.search.proposal import observation
from metasched.search.space_protocol import Candidate, Observation, SearchSpace, Strategy


@dataclass(frozen=True)
class Resumed:
    """Where a search stands that was told of all batches but the last.

    The last may have been cut short: it is proposed again. `batch` is its number, `before` how many proposals there
    were before it, and `pending` what is known of it.
    """

    batch: int
    before: int
    pending: tuple[Observation, ...]


def resume(known: Known, space: SearchSpace, strategy: Strategy, database: Database) -> Resumed:
    """Tell a new strategy of what is recorded, a call of `observe` for each batch. Raises DatabaseError."""
    batches = [list(entries) for _, entries in groupby(known.in_order(), key=lambda entry: entry[0])]
    if not batches:
        return Resumed(0, 0, ())
    *whole, last = batches
    for entries in whole:
        strategy.observe(list(located(space, entries, database)))
    return Resumed(last[0][0], sum(map(len, whole)), tuple(located(space, last, database)))


def located(
    space: SearchSpace, entries: Iterable[tuple[int, str, Record]], database: Database
) -> Iterator[Observation]:
    """Records as observations: (batch, trace, record). Those of another space teach nothing."""
    for _, trace, record in entries:
        candidate = _candidate(space, trace, database)
        if candidate is not None:
            yield observation(candidate, record)


def _candidate(space: SearchSpace, trace: str, database: Database) -> Candidate | None:
    try:
        return space.locate(trace)
    except LanguageError as error:
        raise DatabaseError(
            f"`{database.url}`: the trace of a record does not parse: {str(error).splitlines()[0]}\n"
            "  hint: `metasched db prune --damaged` removes such records"
        ) from error
