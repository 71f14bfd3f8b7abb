"""How fast a machine is: two kernels whose code is the same on all machines of a target.

Machines of one name differ: in their clock, their memory, and in what else their cores do. Times of one candidate on
two machines compare only where the machines agree. One yardstick is a chain of additions, as fast as the clock; the
other streams through memory on all threads. A machine takes the least time of several visits: what disturbs it for a
moment makes times longer, and never shorter.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from metasched.errors import ResourceError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.runner import Runner
from metasched.measure.timing import TimingPlan
from metasched.schedule.trace import Schedule
from metasched.support.data_classes import dataclass
from metasched.target import Target

# Times of machines agree that are so many times as long at most, either way: what the same machine shows on two days.
AGREEING_RATIO = 1.1
_CHAIN = """
program yardstick_chain[N=256, K=4096](A: f32[N, K]) -> B: f32[N]:
    chain: B[i] = sum[k](A[i, k])
"""
_STREAM = """
program yardstick_stream[N=64, M=65536](A: f32[N, M]) -> B: f32[N, M]:
    stream: B[i, j] = A[i, j] + 1
"""
_PLAN = TimingPlan(samples=8, visits=4, apart_s=0.05, budget_s=0.1).without_race()


@dataclass(frozen=True)
class MachinePace:
    """The least times of the two yardsticks on a machine, in seconds."""

    chain_s: float
    stream_s: float

    def agrees(self, other: MachinePace) -> bool:
        """Whether times on the two machines compare."""
        pairs = (self.chain_s / other.chain_s, self.stream_s / other.stream_s)
        return all(1 / AGREEING_RATIO <= ratio <= AGREEING_RATIO for ratio in pairs)

    def __str__(self) -> str:
        return f"{self.chain_s * 1e3:.3g} ms and {self.stream_s * 1e3:.3g} ms"


def measured_pace(runner: Runner, target: Target) -> MachinePace:
    """The pace of the machine of a runner. Raises ResourceError where its kernels do not run."""
    programs = (_chain(), _stream())
    futures = [runner.submit(program, trace, str(target), plan=_PLAN) for program, trace in programs]
    least = []
    for future in futures:
        measured = future.result()
        if not measured.visits:
            reason = "" if measured.failure is None else f": {measured.failure.reason}\n{measured.failure.detail}"
            raise ResourceError(f"this machine cannot run the kernels by which its speed is told{reason}")
        least.append(min(measured.times))
    return MachinePace(*least)


def most_agreed_pace(paces: Sequence[MachinePace]) -> MachinePace:
    """The pace that most machines agree with, as the median of theirs; of two such groups, the faster one's.

    Raises ValueError for no paces.
    """
    groups = [[other for other in paces if other.agrees(pace)] for pace in paces]
    chosen = max(groups, key=lambda group: (len(group), -_median(group).chain_s))
    return _median(chosen)


def _median(paces: Sequence[MachinePace]) -> MachinePace:
    return MachinePace(statistics.median(p.chain_s for p in paces), statistics.median(p.stream_s for p in paces))


def _chain() -> tuple[Program, str]:
    program = parse_program(_CHAIN)
    return program, str(Schedule(program).trace)


def _stream() -> tuple[Program, str]:
    program = parse_program(_STREAM)
    schedule = Schedule(program)
    rows, columns = schedule.get_loops(schedule.get_block("stream"))
    schedule.parallel(rows)
    schedule.vectorize(columns, lanes=16)
    return program, str(schedule.trace)
