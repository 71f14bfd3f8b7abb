"""A machine of a cluster: what its worker builds and times with, and says of itself."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

from metasched.ir.program import Program
from metasched.measure.checking.inputs import Inputs
from metasched.measure.cluster.payloads import Greeting
from metasched.measure.cluster.yardstick import measured_pace
from metasched.measure.records import Lowered, MeasureCandidate, Measurement, Reason
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.parsed_programs import parsed_program
from metasched.measure.workers.process import WorkerLost
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.support.code_version import code_version
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an, counted
from metasched.target import Target


@dataclass(frozen=True)
class Built:
    """A candidate to time: its machine code as a builder gave it, the best time known, and how it is timed."""

    candidate: MeasureCandidate
    artefact: Message
    best_s: float | None
    plan: TimingPlan


class Machine(Protocol):
    """What a worker of a cluster does its work with."""

    @property
    def greeting(self) -> Greeting: ...

    def lower_candidate(self, candidate: MeasureCandidate) -> Lowered:
        """A candidate as LLVM text, or its failure."""
        ...

    def build(self, candidate: MeasureCandidate, lowered: Lowered | None) -> Message:
        """A message with the machine code, or with the candidate's failure."""
        ...

    def measure_built(self, built: Sequence[Built], inputs: Inputs | None) -> list[Measurement | BaseException]:
        """Check and time candidates of one program in turns, on data of these `inputs`."""
        ...

    def close(self) -> None: ...


class ThisMachine(LocalRunner):
    """This machine: a `LocalRunner` that builds for others, too, and times what others have built.

    Raises ResourceError where it denies what it needs.
    """

    def __init__(self, target: Target, settings: RunnerSettings) -> None:
        super().__init__(settings)
        try:
            pace = measured_pace(self, target)
        except BaseException:
            self.close()
            raise
        self.greeting = Greeting(str(target), platform.machine(), code_version(), settings.builders, pace)

    def lower_candidate(self, candidate: MeasureCandidate) -> Lowered:
        """A candidate as LLVM text."""
        self._refuse_if_closed()
        return self._building.lower(candidate)

    def build(self, candidate: MeasureCandidate, lowered: Lowered | None) -> Message:
        """A message with the machine code, or with the candidate's failure."""
        self._refuse_if_closed()
        request = (
            Message(MessageKind.BUILD, asdict(candidate))
            if lowered is None
            else Message(MessageKind.COMPILE, lowered.body, lowered.text)
        )
        try:
            return self._building.ask(request)
        except WorkerLost as lost:
            failed = asdict(lost.failure(Reason.BUILD_TIMEOUT))
            return Message(MessageKind.FAILED, {**failed, "phases": {"build": lost.seconds}})

    def measure_built(self, built: Sequence[Built], inputs: Inputs | None) -> list[Measurement | BaseException]:
        """Check and time candidates of one program in turns."""
        program = _program(built[0].candidate)
        self.prepare(program, inputs)
        futures = []
        for one in built:
            self._building.built.add(one.candidate, one.artefact)
            futures.append(self.submit(program, one.candidate.trace, one.candidate.target, one.best_s, plan=one.plan))
        return [future.exception() or future.result() for future in futures]


def _program(candidate: MeasureCandidate) -> Program:
    return parsed_program(candidate.program, candidate.params)


def misfit(machine: Target, wanted: Target) -> str | None:
    """Why a machine does not measure for a target; None where it does."""
    if machine.name != wanted.name:
        return f"it is {a_or_an(machine.name)}, and not {a_or_an(wanted.name)}"
    lacking = sorted(wanted.features - machine.features)
    if lacking:
        return f"it has no {', '.join(lacking[:3])}"
    if machine.threads < wanted.threads:
        return f"it has {counted(machine.threads, 'thread')}, and {wanted.threads} are wanted"
    for cache in ("l1", "l2", "l3", "cacheline"):
        own, other = getattr(machine, cache), getattr(wanted, cache)
        if own != other:
            return f"its {cache} has {own} bytes, and not {other}"
    return None
