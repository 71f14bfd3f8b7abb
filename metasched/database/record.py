"""What a tuning record holds: text and numbers only, read back as data and never executed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from metasched.errors import MetaschedError
from metasched.ir.source import Setting


class DatabaseError(MetaschedError):
    """A database that cannot be opened, read or written; the message says which and what to do."""


class DamagedRecordWarning(UserWarning):
    """Records of a database that cannot be read, and are passed over; the message says how many and what to do."""


@dataclass(frozen=True)
class TaskKey:
    """What measurements have to share to be compared and reused.

    `program_hash` is that of the program with its names, which traces mention; `target` the text of the target,
    `code_version` that of the code generator (see `code_version`).
    """

    program_hash: str
    target: str
    threads: int
    code_version: str


@dataclass(frozen=True)
class Record:
    """One finished measurement, or one counted failure.

    `program`, `params` and `trace` replay the candidate. `failure` is None for a valid time, else a short stable
    reason to count by. `times` are all samples in seconds per call (empty after a failure); `raced` says that
    measuring stopped early because the candidate was clearly slower than the best. `phases` are (name, seconds)
    in the order they ran. `timestamp` is in seconds since the epoch; `seed` and `trial` say which run of the
    search proposed it, and as which candidate.
    """

    task: TaskKey
    program: str
    params: tuple[tuple[str, Setting], ...]
    trace: str
    times: tuple[float, ...]
    failure: str | None
    raced: bool
    phases: tuple[tuple[str, float], ...]
    timestamp: float
    seed: int
    trial: int

    def __post_init__(self) -> None:
        if (self.failure is None) != bool(self.times):
            raise ValueError("a record has either times or a reason for its failure")
        if any(not 0.0 < t < float("inf") for t in self.times):
            raise ValueError(f"times are finite, positive seconds, not {self.times}")

    @property
    def seconds(self) -> float | None:
        """The median time of a call; None after a failure."""
        return statistics.median(self.times) if self.times else None


@dataclass(frozen=True)
class TaskStats:
    """What a database holds of one task: `program` is its name, `failures` are (reason, count), most first."""

    task: TaskKey
    program: str
    params: tuple[tuple[str, Setting], ...]
    records: int
    failures: tuple[tuple[str, int], ...]
    best_seconds: float | None
    first: float
    last: float


@dataclass(frozen=True)
class DatabaseStats:
    """What a database holds: one entry a task, in the order they were first measured."""

    url: str
    records: int
    tasks: tuple[TaskStats, ...]


@cache
def code_version() -> str:
    """The versions that decide the machine code a trace becomes, as text: metasched, Numba and llvmlite."""
    return " ".join(f"{package} {_installed(package)}" for package in ("metasched", "numba", "llvmlite"))


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "uninstalled"
