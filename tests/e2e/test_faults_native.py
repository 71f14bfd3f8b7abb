"""Real candidates through real workers: times for the right ones, reasons for the others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from metasched.errors import KernelError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.records import CheckError, Lowered, Measurement, WorkerBug
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.workers.process import WorkerProcess
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.target import Target
from tests.support.kept_workers import BRIEFLY

THREADS = 2
TARGET = str(Target.detect(THREADS))
PROGRAM = parse_program(
    """
program dense_relu[N=33, M=50, K=40](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""
)
HEADER = """trace 1 of dense_relu[N=33, M=50, K=40]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
"""
PLAIN = HEADER
TILED = (
    HEADER
    + """    i0, i1 = split(i, [None, 7])
    j0, j1 = split(j, [None, 32])
    reorder(i0, j0, k, i1, j1)
    relu = get_block("relu")
    parallel(i0)
    reverse_compute_at(relu, j0)
    vectorize(j1, lanes=16)
    unroll(i1)
"""
)
ILLEGAL = HEADER + "    parallel(k)\n"
HUGE_UNROLL = (
    HEADER
    + """    unroll(k)
    unroll(j)
    unroll(i)
"""
)


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    with LocalRunner(RunnerSettings(threads=THREADS, builders=1, plan=BRIEFLY)) as made:
        yield made


def measure(runner: LocalRunner, *traces: str, program: Program = PROGRAM) -> list[Measurement]:
    return list(runner.measure(program, traces, TARGET))


def test_right_candidates_are_timed_and_wrong_ones_have_reasons(runner: LocalRunner) -> None:
    plain, illegal, huge, tiled = measure(runner, PLAIN, ILLEGAL, HUGE_UNROLL, TILED)
    for good in (plain, tiled):
        assert good.failure is None
        assert all(0 < t < 1 for t in good.times)
        names = ["replay", "lower", "emit", "compile", "reference", "load", "check", "run"]
        assert [name for name, _ in good.phases] == names
    assert illegal.failure is not None
    assert illegal.failure.reason.startswith("parallel: ")
    assert huge.failure is not None
    assert "\n" not in huge.failure.reason


def test_a_program_that_cannot_be_checked_says_what_to_give(runner: LocalRunner) -> None:
    program = parse_program("program p[N=64](A: f32[N]) -> B: f32[N]:\n    B[i] = log(A[i] - 2)\n")
    with pytest.raises(CheckError, match="inputs="):
        measure(runner, "trace 1 of p[N=64]:\n", program=program)


def test_the_range_of_an_input_makes_it_checkable() -> None:
    program = parse_program("program p[N=64](A: f32[N]) -> B: f32[N]:\n    B[i] = log(A[i] - 2)\n")
    with LocalRunner(RunnerSettings(threads=1, builders=1), inputs={"A": (3.0, 4.0)}) as runner:
        (measured,) = runner.measure(program, ["trace 1 of p[N=64]:\n"], TARGET)
    assert measured.failure is None, measured.failure


def test_inputs_that_do_not_fit_are_told_by_name() -> None:
    with LocalRunner(RunnerSettings(threads=1, builders=1), inputs={"Q": (3.0, 4.0)}) as runner:
        future = runner.submit(PROGRAM, PLAIN, TARGET)
        with pytest.raises(KernelError, match="no argument `Q`"):
            future.result()


def test_a_trace_that_is_no_trace_is_not_a_candidates_failure(runner: LocalRunner) -> None:
    with pytest.raises(WorkerBug, match="LanguageError"):
        measure(runner, "this is no trace")


RIGHT = [
    """
program softmax[N=5, M=23](X: f32[N, M]) -> Y: f32[N, M]:
    top: R[i] = max[j](X[i, j])
    E[i, j] = exp(X[i, j] - R[i])
    S[i] = sum[j](E[i, j])
    Y[i, j] = E[i, j] / S[i]
""",
    """
program norm[N=5, M=23](X: f32[N, M], g: f32[M]) -> Y: f32[N, M]:
    R[i] = sum[j](X[i, j] / 23)
    V[i] = sum[j]((X[i, j] - R[i]) * (X[i, j] - R[i]))
    Y[i, j] = (X[i, j] - R[i]) * rsqrt(V[i] / 23 + 0.00001) * g[j]
""",
    """
program bytes[N=9](A: i8[N, N], B: i8[N, N]) -> C: i32[N, N]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
""",
    """
program several[N=9](A: f64[N, N], s: f64) -> (C: f64[N], D: f64[N, N]):
    C[i] = prod[k](A[i, k])
    D[i, j] = tanh(A[i, j] * s)
""",
]


@pytest.mark.parametrize("text", RIGHT)
def test_programs_of_every_kind_pass_their_own_checks(runner: LocalRunner, text: str) -> None:
    program = parse_program(text)
    (measured,) = measure(runner, f"trace 1 of {program.key}:\n", program=program)
    assert measured.failure is None, measured.failure


def test_nothing_is_prepared_or_lowered_while_a_candidate_is_timed(
    runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked for while one is: it waits."""
    times: list[tuple[bool, float, float]] = []
    lowered: list[Future[Lowered]] = []
    request = WorkerProcess.request

    def timed(worker: WorkerProcess, message: Message, timeout_s: float, memory_bytes: int | None = None) -> Message:
        is_run = message.kind is MessageKind.RUN
        if is_run and not lowered:
            runner.prepare(parse_program(str(PROGRAM), N=34))
            lowered.extend(runner.lower(PROGRAM, TILED.replace("None, 7", f"None, {n}"), TARGET) for n in (3, 4, 5))
        start = time.perf_counter()
        answer = request(worker, message, timeout_s, memory_bytes)
        times.append((is_run, start, time.perf_counter()))
        return answer

    monkeypatch.setattr(WorkerProcess, "request", timed)
    measured = measure(runner, PLAIN, TILED)
    assert all(m.visits for m in measured)
    assert all(future.result().code for future in lowered)
    runs = [(start, end) for is_run, start, end in times if is_run]
    work = [(start, end) for is_run, start, end in times if not is_run]
    assert len(runs) >= 4
    assert len(work) >= 1 + len(lowered)
    assert not [(run, other) for run in runs for other in work if run[0] < other[1] and other[0] < run[1]]


def test_inputs_may_be_given_for_each_program(runner: LocalRunner) -> None:
    text = "program root[N=40](A: f32[N]) -> B: f32[N]:\n    logs: B[i] = log(A[i] - 3)\n"
    program = parse_program(text)
    runner.prepare(program, {"A": (4.0, 5.0)})
    trace = 'trace 1 of root[N=40]:\n    logs = get_block("logs")\n'
    assert runner.submit(program, trace, TARGET).result().visits
