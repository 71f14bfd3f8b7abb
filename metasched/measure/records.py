"""Candidates and their measurements, as plain data."""

from __future__ import annotations

from dataclasses import asdict, field
from enum import Enum
from typing import Any

from metasched.errors import MetaschedError
from metasched.ir.source import Setting
from metasched.measure.timing import Times, median_of
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing


class Reason(Enum):
    """Why a candidate has no time, as found by measuring; failures are counted by its value.

    Beside these there are `crash SIGNAL`, and the reasons of `ScheduleError` and `BuildError`.
    """

    BUILD_TIMEOUT = "build-timeout"
    RUN_TIMEOUT = "run-timeout"
    OUT_OF_MEMORY = "out-of-memory"
    WRONG_RESULT = "wrong-result"
    INPUTS_MODIFIED = "inputs-modified"
    OUT_OF_BOUNDS = "out-of-bounds-write"
    STATUS = "error-status"


@dataclass(frozen=True)
class Failure:
    """Why a candidate has no time: `reason` is short and stable, `detail` is for the person who looks into it."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class MeasureCandidate:
    """What is measured, as text: a program with its parameters, a trace of it, a target."""

    program: str
    params: tuple[tuple[str, Setting], ...]
    trace: str
    target: str


@dataclass(frozen=True)
class Artefact:
    """What a runner needs to know of the machine code that it calls.

    `entry` is the symbol of its function, `workspace_bytes` the size of the workspace it takes, `parallel` whether it
    starts threads; `scalars` are the (position, dtype) of the arguments that are passed by value. Where a candidate
    computes something of its constant arguments ahead, this is its main part, and `ahead` says what runs before.
    """

    entry: str
    workspace_bytes: int
    parallel: bool
    target: str
    scalars: tuple[tuple[int, str], ...]
    ahead: ArtefactPrologue | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Artefact:
        scalars = tuple((int(position), str(dtype)) for position, dtype in data["scalars"])
        ahead = None if data["ahead"] is None else ArtefactPrologue.from_json(data["ahead"])
        return Artefact(**(data | {"scalars": scalars, "ahead": ahead}))

    def split(self, blob: bytes) -> tuple[bytes, bytes]:
        """The code of the prologue, which may be none, and what is timed, in what carries both."""
        size = 0 if self.ahead is None else self.ahead.size
        return blob[:size], blob[size:]


@dataclass(frozen=True)
class ArtefactPrologue:
    """The prologue of a candidate (`metasched.ir.prologue`), whose code of `size` bytes lies before that of the main
    part.

    `given` and `taken` are the positions, among the candidate's arguments, of those that the prologue and the main part
    take; the prologue's results, of `result_bytes` each, follow them in both.
    """

    code: Artefact
    given: tuple[int, ...]
    taken: tuple[int, ...]
    result_bytes: tuple[int, ...]
    size: int

    @staticmethod
    def from_json(data: dict[str, Any]) -> ArtefactPrologue:
        given, taken, result_bytes = (tuple(map(int, data[name])) for name in ("given", "taken", "result_bytes"))
        return ArtefactPrologue(Artefact.from_json(data["code"]), given, taken, result_bytes, int(data["size"]))


@dataclass(frozen=True)
class Measurement:
    """The result of measuring one candidate.

    `visits` are the samples of each visit, in seconds per call, empty if there is a `failure`. `raced` says that visits
    were left out because it was clearly slower than the best: its time is a lower bound then.
    `phases` are (name, seconds). `code` is the hash of the code, None where the candidate has none. A candidate that
    computes something of its constant arguments ahead is timed without that: `prologue_seconds` is what it takes once.
    """

    candidate: MeasureCandidate
    visits: tuple[Times, ...]
    raced: bool
    failure: Failure | None
    phases: tuple[tuple[str, float], ...]
    code: str | None = None
    prologue_seconds: float | None = None

    @property
    def times(self) -> Times:
        """All samples."""
        return tuple(seconds for times in self.visits for seconds in times)

    @property
    def seconds(self) -> float | None:
        """The median time of a call; None after a failure."""
        return median_of(self.visits) if self.visits else None


@dataclass(frozen=True)
class Lowered:
    """A candidate as LLVM text, which is yet to be compiled, or the failure to get there.

    `code` is the hash by which equal code is recognised; `body` and `text` are what a builder makes machine code from.
    """

    candidate: MeasureCandidate
    code: str | None
    failure: Failure | None = None
    body: dict[str, Any] = field(default_factory=dict)
    text: bytes = b""


@dataclass(frozen=True)
class Limits:
    """What a worker may use, and when it is replaced.

    `build_s`, `run_s` and `prepare_s` are the seconds a builder may take for a candidate, the runner for one visit
    (checks included), and a worker to compute a program's expected result. `memory_bytes` bounds what a worker holds,
    beyond which it is killed; for an expected result it may hold most of what the machine has to spare, if more.
    A worker is replaced after `recycle_after` candidates, or when it holds `recycle_bytes` between two of them.
    """

    build_s: float = 20.0
    run_s: float = 20.0
    prepare_s: float = 600.0
    start_s: float = 120.0
    memory_bytes: int = 3 << 30
    recycle_after: int = 400
    recycle_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if min(self.build_s, self.run_s, self.prepare_s, self.start_s) <= 0:
            raise ValueError(f"time limits are positive: {self}")
        if min(self.memory_bytes, self.recycle_after, self.recycle_bytes) <= 0:
            raise ValueError(f"memory limits and counts are positive: {self}")


class WorkerBug(Exception):
    """A worker raised what no candidate may cause: a defect of metasched, with what replays it.

    It is no `MetaschedError`, so that it is not counted as a failed candidate.
    """

    def __init__(self, what: str, traceback: str, candidate: MeasureCandidate | None = None) -> None:
        self.traceback = traceback
        self.candidate = candidate
        super().__init__(what, traceback, candidate)

    def __str__(self) -> str:
        out = f"{self.args[0]}\n\n{self.traceback.rstrip()}"
        if self.candidate is not None:
            params = ", ".join(f"{name}={value}" for name, value in self.candidate.params)
            out += (
                f"\n\nprogram (with {params or 'no parameters'}):\n{self.candidate.program}"
                f"\n\ntrace:\n{self.candidate.trace}\n\ntarget: {self.candidate.target}"
            )
        return out


class CheckError(MetaschedError):
    """A program whose results cannot be checked on its data.

    Attributes:
        said: what is wrong, without a hint.
        arguments: those of the program of which other data may help; none where data is not the matter.
    """

    def __init__(
        self,
        said: str,
        arguments: tuple[str, ...] = (),
        way: str = "inputs={NAME: (low, high)}",
        *,
        hint: str = "",
    ) -> None:
        self.said = said
        self.arguments = arguments
        super().__init__(said, hint=f"say what it takes: `{way}` for {listing(arguments)}" if arguments else hint)

    def with_way(self, way: str) -> CheckError:
        """This error for a caller who says what data an argument takes in another `way`."""
        return CheckError(self.said, self.arguments, way, hint=self.hint)


class RunnerClosed(MetaschedError):
    """A measurement was asked of a runner, or was under way in it, when it was closed."""
