"""What a builder process does: a candidate's texts to machine code, and a program to its expected results."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from metasched.ir.nodes import Func
from metasched.ir.source import settings_from_json
from metasched.measure.checking.archive import read_arrays
from metasched.measure.checking.arithmetic import AllowedArithmetic
from metasched.measure.checking.check import prepare
from metasched.measure.checking.inputs import Given
from metasched.measure.compiling import compile_candidate, compile_func, lower_candidate
from metasched.measure.records import Artefact, MeasureCandidate
from metasched.measure.workers.parsed_programs import parsed_program
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.schedule.trace import Trace
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target


class Builder:
    """Compiles candidates and computes expected results."""

    def lower(self, candidate: MeasureCandidate) -> Message:
        """Replay, lower, emit: LLVM text and its hash. Raises ScheduleError and BuildError: the candidate's fault."""
        phases = Stopwatch()
        func = _replay_candidate(candidate, phases)
        artefact, text, code = lower_candidate(func, _target(candidate.target), phases)
        body = {"artefact": artefact.to_json(), "code": code, "phases": phases.seconds()}
        return Message(MessageKind.DONE, body, text)

    def compile(self, body: dict[str, Any], text: bytes) -> Message:
        """What `lower` gave to machine code. Raises BuildError."""
        phases = Stopwatch()
        artefact, data = compile_candidate(Artefact.from_json(body["artefact"]), text, phases)
        built = {**body, "artefact": artefact.to_json(), "phases": phases.seconds()}
        return Message(MessageKind.DONE, built, data)

    def build(self, candidate: MeasureCandidate) -> Message:
        """The code of a candidate, lowered and compiled. Raises ScheduleError and BuildError."""
        lowered = self.lower(candidate)
        built = self.compile(lowered.body, lowered.blob)
        return Message(
            MessageKind.DONE, {**built.body, "phases": {**lowered.body["phases"], **built.body["phases"]}}, built.blob
        )

    def build_whole(self, candidate: MeasureCandidate) -> Message:
        """Machine code that computes of constant arguments in every call what parts compute ahead. Raises
        ScheduleError and BuildError.
        """
        phases = Stopwatch()
        artefact, data = compile_func(_replay_candidate(candidate, phases), _target(candidate.target), phases)
        return Message(MessageKind.DONE, {"artefact": artefact.to_json(), "phases": phases.seconds()}, data)

    def prepare(self, body: dict[str, Any]) -> Message:
        """Compute and save the data and expected results of a program. Raises CheckError."""
        params = settings_from_json(body["params"])
        arrays = read_arrays(Path(body["given"]))
        ranges = {name: (float(low), float(high)) for name, (low, high) in body["ranges"].items()}
        program = parsed_program(body["program"], params)
        by = AllowedArithmetic(body["steps"], body["fastmath"]).computation_of(program)
        cases = prepare(program.func, Given(arrays, ranges), int(body["seed"]), by)
        cases.save(Path(body["path"]))
        return Message(MessageKind.DONE)


def _replay_candidate(candidate: MeasureCandidate, phases: Stopwatch) -> Func:
    with phases.timed("replay"):
        program = parsed_program(candidate.program, candidate.params)
        return Trace.parse(candidate.trace).apply_to(program).func


@lru_cache(maxsize=8)
def _target(text: str) -> Target:
    return Target.parse(text)
