"""What a search needs of a record, without its program, its trace and its samples: a hundred thousand fit in memory."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from metasched.database.record import NO_TRIAL, Record, Role, SearchKey, TaskKey, VisitKind
from metasched.measure.timing import or_inf
from metasched.permissions import Permission
from metasched.schedule.trace_outline import Outline, outline_of
from metasched.schedule.trace_permissions import permissions_of_text

_GUESSES = frozenset(role.value for role in Role if role.is_guess)


class Summary(NamedTuple):  # and no dataclass: making one of these takes a tenth of the time
    """A record in short.

    `number` is what its database knows it by, `written` a number that records of one program text with the same
    parameters share. `structure` and `decisions` are the trace's `Outline`. `seconds` is the median time over all
    visits, `search_seconds` that over those of the search; both are None after a failure. `settled` says that it is a
    time and no bound, `turns` and `repeats` in how many groups of such visits it was timed again.
    `permissions` are the names, between commas, of those that the trace needs.
    """

    number: int
    written: int
    space: str
    code_version: str
    structure: str
    decisions: str
    seconds: float | None
    search_seconds: float | None
    settled: bool
    raced: bool
    failure: str | None
    role: str
    turns: int
    repeats: int
    batch: int
    place: int
    trial: int
    code: str
    timestamp: float
    permissions: str

    @property
    def seconds_or_inf(self) -> float:
        """`seconds`; after a failure more than any."""
        return or_inf(self.seconds)

    @property
    def search_seconds_or_inf(self) -> float:
        """`search_seconds`; after a failure more than any."""
        return or_inf(self.search_seconds)

    @property
    def outline(self) -> Outline:
        return Outline(self.structure, self.decisions)

    @property
    def is_trial(self) -> bool:
        """Whether it is a trial of the search that it was made in."""
        return self.trial != NO_TRIAL

    @property
    def is_guess(self) -> bool:
        """Whether it was measured as a guess."""
        return self.role in _GUESSES

    def is_within(self, allowed: Set[Permission]) -> bool:
        """Whether its trace needs no permission but these."""
        return not self.permissions or {*self.permissions.split(",")} <= {permission.value for permission in allowed}

    def search(self, task: TaskKey) -> SearchKey:
        return SearchKey(task, self.space, self.code_version)


def summary_of(record: Record, number: int, written: int) -> Summary:
    """A record in short, under the numbers that its database gives it."""
    outline = outline_of(record.trace)
    return Summary(
        number=number,
        written=written,
        space=record.space,
        code_version=record.code_version,
        structure=outline.structure,
        decisions=outline.decisions,
        seconds=record.seconds,
        search_seconds=record.search_seconds,
        settled=record.settled,
        raced=record.raced,
        failure=record.failure,
        role=record.role.value,
        turns=len(record.groups(VisitKind.TURN)),
        repeats=len(record.groups(VisitKind.REPEAT)),
        batch=record.batch,
        place=record.place,
        trial=record.trial,
        code=record.code,
        timestamp=record.timestamp,
        permissions=permissions_text(record.trace),
    )


def permissions_text(trace: str) -> str:
    """The names of the permissions that a trace needs, as a summary has them."""
    return ",".join(sorted(permission.value for permission in permissions_of_text(trace)))
