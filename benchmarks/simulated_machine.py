"""A machine of a cluster that takes a fixed time for every candidate, and makes times up.

`python -m benchmarks.simulated_machine ADDRESS SETTINGS` has one join a dask scheduler; the settings are those of
`SimulatedMachine`, as JSON. It shows what a search does with several machines where there is one, and tests use it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from metasched.measure.checking.inputs import Inputs
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.machine import Built
from metasched.measure.cluster.payloads import Greeting
from metasched.measure.cluster.worker import serve
from metasched.measure.cluster.yardstick import MachinePace
from metasched.measure.records import Lowered, MeasureCandidate, Measurement
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.support.code_version import code_version


@dataclass
class SimulatedMachine:
    """A machine of a `target` that needs `delay_s` for each candidate, and `build_s` to lower or build it.

    `slower` is how many times as slow its yardsticks are. It ends its process when it begins with measurement number
    `dies_at`, and takes no end with number `hangs_at`; a candidate fails whose trace has `fails_on` in it, and its
    process ends over one that has `deadly`. What it does goes to the file `log`, a JSON object a line.
    """

    target: str
    delay_s: float = 0.0
    build_s: float = 0.0
    slower: float = 1.0
    builders: int = 2
    dies_at: int | None = None
    hangs_at: int | None = None
    fails_on: str | None = None
    deadly: str | None = None
    version: str | None = None
    log: str = os.devnull
    begun: int = field(default=0, init=False)

    @property
    def greeting(self) -> Greeting:
        pace = MachinePace(1e-3 * self.slower, 2e-3 * self.slower)
        version = code_version() if self.version is None else self.version
        return Greeting(self.target, platform.machine(), version, self.builders, pace)

    def lower_candidate(self, candidate: MeasureCandidate) -> Lowered:
        time.sleep(self.build_s)
        code = hashlib.sha256(f"{candidate.program}{candidate.trace}".encode()).hexdigest()[:32]
        self._note("lower", candidate)
        return Lowered(candidate, code, None, {"code": code, "phases": {"lower": self.build_s}}, b"define void @f()")

    def build(self, candidate: MeasureCandidate, lowered: Lowered | None) -> Message:
        time.sleep(self.build_s)
        self._note("build", candidate)
        if self.fails_on is not None and self.fails_on in candidate.trace:
            phases = {"build": self.build_s}
            return Message(MessageKind.FAILED, {"reason": "made-up", "detail": "it was to fail", "phases": phases})
        code = None if lowered is None else lowered.code
        return Message(MessageKind.DONE, {"code": code, "phases": {"build": self.build_s}}, b"machine code")

    def measure_built(self, built: Sequence[Built], inputs: Inputs | None) -> list[Measurement | BaseException]:
        return [self._measure(one) for one in built]

    def close(self) -> None:
        """There is nothing to close."""

    def _measure(self, built: Built) -> Measurement:
        self._note("begin", built.candidate)
        self.begun += 1
        if self.begun == self.dies_at or (self.deadly is not None and self.deadly in built.candidate.trace):
            os._exit(1)
        if self.begun == self.hangs_at:
            time.sleep(3600)
        time.sleep(self.delay_s)
        self._note("end", built.candidate)
        seconds = _seconds(built.candidate)
        visits = ((seconds,),) * built.plan.visits
        code = built.artefact.body["code"]
        return Measurement(built.candidate, visits, False, None, (("run", self.delay_s),), code and str(code))

    def _note(self, what: str, candidate: MeasureCandidate) -> None:
        key = hashlib.sha256(f"{candidate.program}{candidate.params}{candidate.trace}".encode()).hexdigest()[:16]
        line = json.dumps({"what": what, "candidate": key, "at": time.time(), "pid": os.getpid()})
        with open(self.log, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{line}\n")


def _seconds(candidate: MeasureCandidate) -> float:
    """A time that depends on the candidate alone."""
    digest = hashlib.sha256(candidate.trace.encode()).digest()
    return 1e-3 * (1.0 + int.from_bytes(digest[:4], "big") / 2**32)


def main() -> None:
    """Join a scheduler."""
    address, settings = sys.argv[1:3]
    serve(SchedulerAddress.parse(address), SimulatedMachine(**json.loads(settings)))


if __name__ == "__main__":
    main()
