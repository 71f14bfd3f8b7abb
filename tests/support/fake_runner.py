"""A runner of real programs that runs nothing, and what it takes in a network, made up."""

from __future__ import annotations

from concurrent.futures import Future
from zlib import crc32

from metasched.ir.program import Program
from metasched.measure.checking.inputs import Inputs
from metasched.measure.records import Lowered, MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan


class FakeRunner:
    """Times that depend on the trace alone; nothing runs."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.submitted = 0
        self.stop_at = stop_at
        self.constants: set[str] = set()

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        future: Future[Lowered] = Future()
        future.set_result(Lowered(MeasureCandidate(str(program), program.params, trace, target), trace))
        return future

    def submit(
        self,
        program: Program,
        trace: str,
        target: str,
        best_s: float | None = None,
        *,
        lowered: Lowered | None = None,
        plan: TimingPlan | None = None,
    ) -> Future[Measurement]:
        self.submitted += 1
        plan = plan or TimingPlan()
        self.constants.add(plan.surroundings)
        future: Future[Measurement] = Future()
        if self.submitted == self.stop_at:
            future.set_exception(KeyboardInterrupt())
            return future
        seconds = self.seconds_of(program, trace)
        candidate = MeasureCandidate(str(program), program.params, trace, target)
        future.set_result(Measurement(candidate, ((seconds,),) * plan.visits, False, None, (), trace))
        return future

    def seconds_of(self, program: Program, trace: str) -> float:
        del program
        return 1e-5 * (1 + crc32(trace.encode()) % 1000 / 1000)

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        """Nothing is checked."""

    def close(self) -> None:
        """Nothing is open."""


class LevelRunner(FakeRunner):
    """All takes as long."""

    def seconds_of(self, program: Program, trace: str) -> float:
        del program, trace
        return 1e-5


class AllFaster:
    """Every kernel that was tuned takes half as long in the network's own call, too."""

    seconds = 2e-3, 1e-3

    def seconds_of_steps(self, numbers: list[int]) -> tuple[float, float]:
        return 2e-6 * len(numbers), 1e-6 * len(numbers)
