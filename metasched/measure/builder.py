"""What a builder process does: a candidate's texts to machine code, and a program to its expected results."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from metasched.backend.target import Target
from metasched.ir.program import Program
from metasched.ir.source import Setting, settings_from_json
from metasched.lang import parse_program
from metasched.measure.archive import read_arrays
from metasched.measure.check import prepare
from metasched.measure.compiling import compile_func
from metasched.measure.inputs import Given
from metasched.measure.phases import Phases
from metasched.measure.protocol import Kind, Message
from metasched.measure.records import Candidate
from metasched.schedule.trace import Trace


class Builder:
    """Compiles candidates and computes expected results."""

    def build(self, candidate: Candidate) -> Message:
        """Replay, lower, emit, compile. Raises ScheduleError and BuildError, which are the candidate's fault."""
        phases = Phases()
        with phases.timed("replay"):
            program = _program(candidate.program, candidate.params)
            func = Trace.parse(candidate.trace).apply_to(program).func
        artefact, data = compile_func(func, _target(candidate.target), phases)
        return Message(Kind.DONE, {"artefact": artefact.to_json(), "phases": phases.seconds}, data)

    def prepare(self, body: dict[str, Any]) -> Message:
        """Compute and save the data and expected results of a program. Raises CheckError."""
        params = settings_from_json(body["params"])
        arrays = read_arrays(Path(body["given"]))
        ranges = {name: (float(low), float(high)) for name, (low, high) in body["ranges"].items()}
        cases = prepare(_program(body["program"], params).func, Given(arrays, ranges), int(body["seed"]))
        cases.save(Path(body["path"]))
        return Message(Kind.DONE)


@lru_cache(maxsize=32)
def _program(text: str, params: tuple[tuple[str, Setting], ...]) -> Program:
    return parse_program(text, **dict(params))


@lru_cache(maxsize=8)
def _target(text: str) -> Target:
    return Target.parse(text)
