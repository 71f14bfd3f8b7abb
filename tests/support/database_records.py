"""Records that tests of stores write and read."""

from __future__ import annotations

from dataclasses import replace

from metasched.database import Record, Role, TaskKey, Visit, VisitKind, code_version
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.toy_search import TARGET, TEXT

TASK = TaskKey("ab" * 32, "cpu skylake-avx512 threads=2", 2)
VERSION = "metasched 0 numba 0 llvmlite 0"
RECORD = Record(
    task=TASK,
    program="program p[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n",
    params=(("N", 4),),
    trace='trace 1 of p[N=4]:\n    b = get_block("B")\n',
    visits=(Visit((0.5, 0.25)), Visit((1 / 3,), VisitKind.TURN, "7/0")),
    failure=None,
    raced=False,
    phases=(("build", 0.125), ("run", 0.5)),
    timestamp=1_700_000_000.5,
    seed=7,
    trial=3,
    batch=2,
    place=5,
    code="c" * 32,
    role=Role.GUESS,
    space="f" * 32,
    code_version=VERSION,
)
SEARCH = RECORD.search
FAILED = replace(RECORD, visits=(), failure="wrong-result", trial=4)


def timed(*times: float, trial: int = 0) -> Record:
    """A candidate with two visits, the second of the last time alone."""
    visits = (Visit(times), Visit(times[-1:]))
    return replace(RECORD, visits=visits, trial=trial, role=Role.CANDIDATE)


ADD = parse_program(TEXT)
ADD_TASK = TaskKey.of(ADD, TARGET)
ADD_TRACE = str(Schedule(ADD).trace)


def sound(seconds: float, trial: int, **changes: object) -> Record:
    """A record that is what it claims, of a program whose trace does nothing."""
    made = Record(
        task=ADD_TASK,
        program=str(ADD),
        params=ADD.params,
        trace=ADD_TRACE,
        visits=(Visit((seconds,)), Visit((seconds,))),
        failure=None,
        raced=False,
        phases=(),
        timestamp=1e9 + trial,
        seed=0,
        trial=trial,
        code=f"code {trial}",
        role=Role.CANDIDATE,
        space="s",
        code_version=code_version(),
    )
    return replace(made, **changes)  # type: ignore[arg-type]
