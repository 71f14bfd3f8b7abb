"""What a tuning record holds: text and numbers only, read back as data and never executed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from metasched.errors import MetaschedError
from metasched.ir.highlight import html_text
from metasched.ir.notebook import table
from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.measure.timing import LEAST_VISITS, Surroundings, Times, median_of, or_inf
from metasched.permissions import Permission
from metasched.schedule.trace_permissions import permissions_of_text
from metasched.support.code_version import code_version as code_version
from metasched.support.data_classes import dataclass
from metasched.target import Target


class DatabaseError(MetaschedError):
    """A database that cannot be opened, read or written; the message says which and what to do."""


class DamagedRecordWarning(UserWarning):
    """Records of a database that cannot be read, and are passed over; the message says how many and what to do."""


@dataclass(frozen=True)
class TaskKey:
    """What records have to share for their times to be compared: the program, the target, the number of threads, and
    how kernels were timed.

    `program_hash` is `Program.structural_hash`, which no renaming changes; `target` the text of the target.
    `surroundings` are what they were timed in (`Surroundings`): empty for alone, in a loop.
    """

    program_hash: str
    target: str
    threads: int
    surroundings: str = Surroundings.ALONE.value

    @staticmethod
    def of(program: Program, target: Target, surroundings: Surroundings = Surroundings.ALONE) -> TaskKey:
        return TaskKey(program.structural_hash(), str(target), target.threads, surroundings.value)


@dataclass(frozen=True)
class SearchKey:
    """A search: a task in a space, by the space's fingerprint, with a version of the code generator.

    The records that share it are the trials of the search.
    """

    task: TaskKey
    space: str
    code_version: str


class VisitKind(Enum):
    """What a visit was made for."""

    SEARCH = "search"  # to know a new candidate's time; the search learns from these alone
    REPEAT = "repeat"  # to know how much the time of the same code varies
    TURN = "turn"  # to tell the best from one another, in turns with them


@dataclass(frozen=True)
class Visit:
    """Samples that were taken together, in seconds per call.

    `group` says which visits belong together: those of one repetition, and those of several records that were made in
    one turn.
    """

    times: Times
    kind: VisitKind = VisitKind.SEARCH
    group: str = ""


class Role(Enum):
    """Why a record is there."""

    CANDIDATE = "candidate"  # the search proposed it
    GUESS = "guess"  # the guess in the space that was searched
    DEFAULT = "default"  # the guess for a caller who names no space
    NEIGHBOUR = "neighbour"  # what was found for another size, carried over
    EXPERT = "expert"  # an expert's trace for what the program computes, which the guess did not take

    ELSEWHERE = "elsewhere"  # drawn at random, since the search had stagnated

    @property
    def is_guess(self) -> bool:
        """Whether it is what a caller without records gets, so that the best has to beat it."""
        return self in {Role.GUESS, Role.DEFAULT}


# The number of a record that is no trial: the default guess, where another space was searched.
NO_TRIAL = -1


@dataclass(frozen=True)
class Record:
    """One finished measurement, or one counted failure.

    `space` is the fingerprint of the space that was searched, empty for a record from before there were any;
    `code_version` that of the code generator (see `code_version`).
    `program`, `params` and `trace` replay the candidate. `failure` is None for a valid time, else a short stable
    reason to count by. `visits` hold all samples (none after a failure); `raced` says that there would have been more
    had the candidate not been clearly slower than the best: it is at least this slow. `phases` are (name, seconds)
    in the order they ran. `timestamp` is in seconds since the epoch; `seed`, `trial`, `batch` and `place` say which
    run of the search proposed it, as which candidate, and where in which batch of proposals. `code` is the hash of
    its code, empty where it has none or it is not known. What the schedule computes of constant arguments alone is in
    none of the times: `prologue_seconds` is how long that takes once, None where it is nothing. `expected_seconds` is
    what the model of the search expected before it was measured, None where it was not asked.
    """

    task: TaskKey
    program: str
    params: tuple[tuple[str, Setting], ...]
    trace: str
    visits: tuple[Visit, ...]
    failure: str | None
    raced: bool
    phases: tuple[tuple[str, float], ...]
    timestamp: float
    seed: int
    trial: int
    batch: int = 0
    place: int = 0
    code: str = ""
    role: Role = Role.CANDIDATE
    space: str = ""
    code_version: str = ""
    prologue_seconds: float | None = None
    expected_seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.failure is None) != bool(self.visits):
            raise ValueError("a record has either times or a reason for its failure")
        if not all(visit.times for visit in self.visits):
            raise ValueError("a visit has times")
        if any(not 0.0 < t < float("inf") for t in self.times):
            raise ValueError(f"times are finite, positive seconds, not {self.times}")
        if self.prologue_seconds is not None and not 0.0 <= self.prologue_seconds < float("inf"):
            raise ValueError(f"seconds are finite and not negative, unlike {self.prologue_seconds}")
        if self.expected_seconds is not None and not 0.0 < self.expected_seconds < float("inf"):
            raise ValueError(f"expected seconds are finite and positive, unlike {self.expected_seconds}")

    def __repr__(self) -> str:
        came = self.failure if self.seconds is None else f"{self.seconds * 1e3:.4g} ms{self.once}"
        return f"<record of trial {self.trial}: {came}{self._by}>"

    @property
    def once(self) -> str:
        """What its prologue takes, for a person: to be added to a text of its time."""
        return "" if self.prologue_seconds is None else f" + {once_text(self.prologue_seconds)}"

    @property
    def _by(self) -> str:
        """What it was timed with, if that is not what runs now: the time may then differ."""
        return "" if self.is_current else f", timed with {self.code_version}; tuning again times it anew"

    def _repr_html_(self) -> str:
        came = self.failure or f"{(self.seconds or 0) * 1e3:.4g} ms{self.once}, the median of {len(self.times)}"
        rows = [("result", came), ("trial", str(self.trial)), ("target", self.task.target)]
        rows += [] if self.is_current else [("timed with", f"{self.code_version}, another version than this one")]
        return table("record", rows, html_text(self.trace))

    @property
    def times(self) -> Times:
        """All samples."""
        return tuple(seconds for visit in self.visits for seconds in visit.times)

    @property
    def seconds(self) -> float | None:
        """The median time of a call, over all visits; None after a failure."""
        return median_of([visit.times for visit in self.visits]) if self.visits else None

    @property
    def search_seconds(self) -> float | None:
        """The median time of a call over the visits of the search alone: what it learned, and learns again when it goes
        on.
        """
        return seconds_in_search(self.visits)

    @property
    def seconds_or_inf(self) -> float:
        """`seconds`; after a failure more than any."""
        return or_inf(self.seconds)

    @property
    def search_seconds_or_inf(self) -> float:
        """`search_seconds`; after a failure more than any."""
        return or_inf(self.search_seconds)

    @property
    def settled(self) -> bool:
        """Whether this is a time, and no bound: of two visits at least, and not raced."""
        return len(self.visits) >= LEAST_VISITS and not self.raced

    @property
    def permissions(self) -> frozenset[Permission]:
        """What its trace lets results differ by, besides the order of sums."""
        return permissions_of_text(self.trace)

    @property
    def is_current(self) -> bool:
        """Whether it was timed with the version of the code generator that is running."""
        return self.code_version == code_version()

    @property
    def search(self) -> SearchKey:
        """The search that it is a trial of, unless it is none (`NO_TRIAL`)."""
        return SearchKey(self.task, self.space, self.code_version)

    @property
    def identity(self) -> tuple[TaskKey, str, float, int, int]:
        """The fields of a record that do not change when it is timed again."""
        return self.task, self.trace, self.timestamp, self.trial, self.seed

    def times_of(self, kind: VisitKind) -> list[Times]:
        """The samples of the visits of a kind."""
        return [visit.times for visit in self.visits if visit.kind is kind]

    def by_group(self, kind: VisitKind) -> dict[str, float]:
        """The median of the visits of a kind, by group."""
        return {
            group: median_of([v.times for v in self.visits if v.kind is kind and v.group == group])
            for group in self.groups(kind)
        }

    def groups(self, kind: VisitKind) -> list[str]:
        """The groups of the visits of a kind, in the order that they were made."""
        return visit_groups(self.visits, kind)


def once_text(seconds: float) -> str:
    """The time of a prologue, for a person."""
    return f"{seconds * 1e3:.3g} ms once for constant arguments"


def seconds_in_search(visits: Iterable[Visit]) -> float | None:
    """The median time over the visits of the search; over all of them where there is none of these."""
    given = list(visits)
    found = [visit.times for visit in given if visit.kind is VisitKind.SEARCH] or [visit.times for visit in given]
    return median_of(found) if found else None


def visit_groups(visits: Iterable[Visit], kind: VisitKind) -> list[str]:
    """The groups of the visits of a kind, in the order that they were made."""
    return list(dict.fromkeys(visit.group for visit in visits if visit.kind is kind))


@dataclass(frozen=True)
class Duplicate:
    """A proposal whose code, `code`, had been measured as another trace's; nothing was measured for it."""

    trace: str
    code: str
    batch: int
    place: int


@dataclass(frozen=True)
class TaskStats:
    """What a database holds of one task, in all spaces and versions.

    `program` is its name, `failures` are (reason, count), most first; `best_seconds` is the time of what
    `Database.best` returns, `best_prologue_seconds` that of its prologue, if it has one; `code_versions` are those of
    the records, `spaces` is how many they were made in.
    """

    task: TaskKey
    program: str
    params: tuple[tuple[str, Setting], ...]
    records: int
    failures: tuple[tuple[str, int], ...]
    best_seconds: float | None
    first: float
    last: float
    code_versions: tuple[str, ...] = ()
    spaces: int = 1
    best_prologue_seconds: float | None = None


@dataclass(frozen=True)
class DatabaseStats:
    """What a database holds: one entry a task, in the order they were first measured."""

    url: str
    records: int
    tasks: tuple[TaskStats, ...]


_CONSTANT = re.compile(r"\bconst \w+:")


def version_with_prologues(program: str, version: str) -> str:
    """The code version of a record from when the times of a program with constant arguments included its prologue."""
    return f"{version}, prologues in its times" if _CONSTANT.search(program) else version
