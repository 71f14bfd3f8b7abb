"""What travels between machines: text, numbers, and machine code.

A payload is a dict of JSON values and bytes. What arrives is read as data and checked by what it is made into; machine
code is run only by the worker process that is there for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from metasched.errors import ResourceError
from metasched.ir.source import settings_from_json
from metasched.measure.checking.archive import read_arrays, write_arrays
from metasched.measure.checking.inputs import Given, Inputs
from metasched.measure.cluster.yardstick import MachinePace
from metasched.measure.records import CheckError, Failure, Lowered, MeasureCandidate, Measurement, WorkerBug
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.protocol import Decoder, Message, ProtocolError
from metasched.support.data_classes import dataclass
from metasched.target import Target

Payload = dict[str, Any]
_FASTEST_LEVEL = 1  # LLVM text is ten times as short at this level of zlib already
# Far beyond a candidate's LLVM text and machine code: a bound on what a payload can make us hold.
_MOST_BYTES = 1 << 28


class Fault(Enum):
    """Whose fault it is that there is no result, and no failure of the candidate."""

    UNCHECKED = "unchecked"  # the program's: its results cannot be checked
    LACK = "lack"  # the machine's: it denies what measuring needs
    UNFIT = "unfit"  # the machine's: it is of another target, or closes
    BUG = "bug"  # ours


class MachineFault(Exception):
    """What another machine may do that this one could not: the message says why."""


@dataclass(frozen=True)
class Greeting:
    """What a machine says of itself: its target with all of its threads, its architecture, the version of its code
    generator, how many candidates it builds at once, and its pace.
    """

    target: str
    architecture: str
    code_version: str
    builders: int
    pace: MachinePace

    def to_payload(self) -> Payload:
        return asdict(self)

    @staticmethod
    def from_payload(payload: Payload) -> Greeting:
        """Raises KeyError, TypeError, ValueError or TargetError for what is none."""
        pace = MachinePace(float(payload["pace"]["chain_s"]), float(payload["pace"]["stream_s"]))
        if not (0 < pace.chain_s < float("inf") and 0 < pace.stream_s < float("inf")):
            raise ValueError(f"the times of its yardsticks are {pace}")
        target = str(Target.parse(str(payload["target"])))
        names = (str(payload["architecture"]), str(payload["code_version"]))
        return Greeting(target, *names, max(1, int(payload["builders"])), pace)


def candidate_to(candidate: MeasureCandidate) -> Payload:
    return asdict(candidate)


def candidate_from(payload: Payload) -> MeasureCandidate:
    params = settings_from_json(payload["params"])
    return MeasureCandidate(str(payload["program"]), params, str(payload["trace"]), str(payload["target"]))


def lowered_to(lowered: Lowered) -> Payload:
    """A lowered candidate, without the candidate, which who asked for it has."""
    failure = None if lowered.failure is None else asdict(lowered.failure)
    text = zlib.compress(lowered.text, _FASTEST_LEVEL)
    return {"code": lowered.code, "failure": failure, "body": lowered.body, "text": text}


def lowered_from(payload: Payload, candidate: MeasureCandidate) -> Lowered:
    code = payload["code"]
    text = _inflate_text(payload["text"])
    return Lowered(
        candidate, None if code is None else str(code), _failure(payload["failure"]), dict(payload["body"]), text
    )


def _inflate_text(data: bytes) -> bytes:
    inflating = zlib.decompressobj()
    text = inflating.decompress(data, _MOST_BYTES)
    if inflating.unconsumed_tail:
        raise ValueError(f"a text is longer than {_MOST_BYTES} bytes")
    return text


def message_from(frame: bytes) -> Message:
    """A message of the protocol of workers. Raises ProtocolError for what is none."""
    decoder = Decoder()
    decoder.feed(frame)
    found = decoder.next_message()
    if found is None:
        raise ProtocolError("a frame is cut short")
    return found


def plan_to(plan: TimingPlan) -> Payload:
    return asdict(plan) | {"surroundings": plan.surroundings.value}


def plan_from(payload: Payload) -> TimingPlan:
    return TimingPlan(**payload)


def measurement_to(measured: Measurement) -> Payload:
    """A measurement, without the candidate."""
    return {
        "visits": [list(times) for times in measured.visits],
        "raced": measured.raced,
        "failure": None if measured.failure is None else asdict(measured.failure),
        "phases": [list(phase) for phase in measured.phases],
        "code": measured.code,
        "prologue_seconds": measured.prologue_seconds,
    }


def measurement_from(payload: Payload, candidate: MeasureCandidate) -> Measurement:
    prologue, code = payload["prologue_seconds"], payload["code"]
    return Measurement(
        candidate,
        tuple(tuple(float(t) for t in times) for times in payload["visits"]),
        bool(payload["raced"]),
        _failure(payload["failure"]),
        tuple((str(name), float(seconds)) for name, seconds in payload["phases"]),
        None if code is None else str(code),
        None if prologue is None else float(prologue),
    )


def _failure(payload: Mapping[str, Any] | None) -> Failure | None:
    return None if payload is None else Failure(str(payload["reason"]), str(payload["detail"]))


def given_to(given: Given) -> Payload:
    """The inputs that the caller gave, with their arrays as an archive."""
    with TemporaryDirectory(prefix="metasched-") as folder:
        path = Path(folder, "given.npz")
        write_arrays(path, given.arrays)
        return {"arrays": path.read_bytes(), "ranges": {name: list(span) for name, span in given.ranges.items()}}


def given_from(payload: Payload) -> Inputs:
    with TemporaryDirectory(prefix="metasched-") as folder:
        path = Path(folder, "given.npz")
        path.write_bytes(payload["arrays"])
        arrays = read_arrays(path)
    return {**arrays, **{str(n): (float(low), float(high)) for n, (low, high) in payload["ranges"].items()}}


def fault_to(fault: Fault, text: str) -> Payload:
    return {"fault": fault.value, "text": text}


def require_no_fault(payload: Payload, candidate: MeasureCandidate) -> None:
    """Raise what a payload is about that has no result: CheckError, MachineFault or WorkerBug."""
    if "fault" not in payload:
        return
    fault, text = Fault(payload["fault"]), str(payload["text"])
    if fault is Fault.UNCHECKED:
        raise CheckError(text, tuple(map(str, payload["arguments"])), hint=str(payload["hint"]))
    if fault is Fault.BUG:
        raise WorkerBug("a machine of the cluster raised an exception while measuring a candidate", text, candidate)
    raise MachineFault(text)


def fault_of(error: BaseException, text: str) -> Payload:
    """An exception of measuring as a payload; `text` is its traceback."""
    if isinstance(error, CheckError):
        return {**fault_to(Fault.UNCHECKED, error.said), "arguments": error.arguments, "hint": error.hint}
    if isinstance(error, ResourceError):
        return fault_to(Fault.LACK, str(error))
    return fault_to(Fault.BUG, text)
