"""A candidate that crashes, hangs, hoards memory or lies costs itself and nothing more."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from metasched.lang import parse_program
from metasched.measure.records import CheckError, Limits, Measurement, RunnerClosed, WorkerBug
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.worker_server import ForkedProcess
from tests.support.kept_workers import BRIEFLY

WORKERS = Path(__file__).parent / "workers"
PROGRAM = parse_program("program p[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n")
# Where nothing hangs, what is slow because the machine is busy is not taken to.
LIMITS = Limits(build_s=60, run_s=60, memory_bytes=300 << 20, recycle_bytes=250 << 20)
IMPATIENT = replace(LIMITS, build_s=2.5, run_s=2.5)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import what this process would."""
    monkeypatch.syspath_prepend(str(WORKERS))


def settings(limits: Limits = LIMITS, builders: int = 2) -> RunnerSettings:
    return RunnerSettings(threads=1, builders=builders, limits=limits, plan=BRIEFLY, worker="faulty_worker")


@contextmanager
def opened(limits: Limits) -> Iterator[LocalRunner]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(str(WORKERS))
        with LocalRunner(settings(limits, builders=1)) as made:
            yield made


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    """One for many tests: none of what they do to it may matter to the next."""
    with opened(LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def impatient() -> Iterator[LocalRunner]:
    """One for what hangs."""
    with opened(IMPATIENT) as made:
        yield made


def measure(runner: LocalRunner, *traces: str) -> list[Measurement]:
    return list(runner.measure(PROGRAM, traces, "target"))


def reason(measurement: Measurement) -> str | None:
    return measurement.failure.reason if measurement.failure else None


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("segv", "crash SIGSEGV"),
        ("abort", "crash SIGABRT"),
        ("exit 3", "crash exit 3"),
        ("hoard", "out-of-memory"),
        ("reserve", "out-of-memory"),
        ("kill", "crash SIGKILL"),
        ("wrong", "wrong-result"),
        ("inputs", "inputs-modified"),
        ("build:segv", "crash SIGSEGV"),
        ("build:hoard", "out-of-memory"),
        ("build:schedule", "split: loop `i` is gone"),
        ("build:backend", "register tile too large"),
    ],
)
def test_a_fault_is_a_counted_reason_and_the_next_candidate_runs(
    runner: LocalRunner, fault: str, expected: str
) -> None:
    check_counted(runner, fault, expected)


def test_who_the_system_kills_for_want_of_memory_is_out_of_memory(
    runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = itertools.count()
    monkeypatch.setattr("metasched.measure.workers.process.count_memory_kills", lambda: next(counts))
    check_counted(runner, "kill", "out-of-memory")


def test_one_that_was_given_up_when_it_had_answered_gets_no_other_candidate(
    importable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end takes a while to come."""
    kill, late = ForkedProcess.kill, list[threading.Timer]()

    def kill_late(process: ForkedProcess) -> None:
        late.append(threading.Timer(0.2, kill, [process]))
        late[-1].start()

    with LocalRunner(settings(builders=1)) as runner:
        measure(runner, "good")
        worker = runner._runner
        with monkeypatch.context() as patch:
            patch.setattr(ForkedProcess, "kill", kill_late)
            given_up = worker.pid
            worker.interrupt()
            assert [m.failure for m in measure(runner, "good")] == [None]
        assert worker.pid != given_up
        for timer in late:
            timer.join()


@pytest.mark.parametrize(("fault", "expected"), [("spin", "run-timeout"), ("build:hang", "build-timeout")])
def test_what_hangs_is_a_counted_reason_and_the_next_candidate_runs(
    impatient: LocalRunner, fault: str, expected: str
) -> None:
    check_counted(impatient, fault, expected)


def check_counted(runner: LocalRunner, fault: str, expected: str) -> None:
    before, faulty, after = measure(runner, "good", fault, "good")
    assert reason(faulty) == expected
    assert faulty.times == ()
    assert faulty.seconds is None
    for good in (before, after):
        assert good.failure is None
        # Its two visits agree: a third would tell nothing.
        assert good.visits == ((0.25, 0.25),) * 2
    assert [m.candidate.trace for m in (before, faulty, after)] == ["good", fault, "good"]


def test_every_candidate_of_a_batch_may_fail(impatient: LocalRunner) -> None:
    traces = ["build:segv", "segv", "build:hang", "good", "wrong", "build:exit 1", "exit 1", "good"]
    reasons = [reason(m) for m in measure(impatient, *traces)]
    assert reasons == [
        "crash SIGSEGV",
        "crash SIGSEGV",
        "build-timeout",
        None,
        "wrong-result",
        "crash exit 1",
        "crash exit 1",
        None,
    ]


def test_what_a_candidate_prints_does_not_reach_the_protocol(runner: LocalRunner) -> None:
    assert [reason(m) for m in measure(runner, "print", "build:print", "good")] == [None, None, None]


def test_the_best_time_is_passed_on_for_racing(runner: LocalRunner) -> None:
    first, second = runner.measure(PROGRAM, ["good", "good"], "another target", best_s=0.125)
    # Somewhat slower than the best in two visits that agree: a third would tell nothing.
    assert first.visits == second.visits == ((0.25, 0.125),) * 2
    assert dict(first.phases) | {"reference": 0} == {"build": 0.5, "run": 0.5, "reference": 0}


def test_a_race_is_decided_by_two_visits(runner: LocalRunner) -> None:
    plan = TimingPlan(apart_s=0.0, race_ratio=1.5)
    (slow,) = [runner.submit(PROGRAM, "slow", "a third target", 0.125, plan=plan).result()]
    assert slow.raced
    assert slow.visits == ((0.25, 0.25),) * 2


@pytest.mark.parametrize("in_turns", [True, False])
def test_candidates_are_visited_in_turns_and_apart(runner: LocalRunner, in_turns: bool) -> None:
    plan = TimingPlan(apart_s=0.3, in_turns=in_turns).without_race()  # whose visits are all made
    traces = ["clock", "clock"]
    found = [f.result() for f in [runner.submit(PROGRAM, t, "a fourth target", plan=plan) for t in traces]]
    assert all(len(m.visits) == 3 for m in found)
    (a, c, e), (b, d, f) = ([times[0] for times in m.visits] for m in found)
    # What is compared in turns is first by turns; else the one that may be visited sooner.
    assert a < b < d < c < e < f if in_turns else a < b < c < d < e < f
    assert all(later - earlier > 0.29 for earlier, later in ((a, c), (c, e), (b, d), (d, f)))


def test_a_lowered_candidate_is_built_from_there(runner: LocalRunner) -> None:
    good, bad = (runner.lower(PROGRAM, trace, "target").result() for trace in ("good", "build:schedule"))
    assert (good.code, good.failure) == ("good", None)
    assert runner.submit(PROGRAM, "good", "target", lowered=good).result().code == "good"
    assert bad.code is None
    assert reason(runner.submit(PROGRAM, "build:schedule", "target", lowered=bad).result()) == "split: loop `i` is gone"
    with pytest.raises(WorkerBug):
        runner.lower(PROGRAM, "build:bug", "target").result()


@pytest.mark.parametrize("fault", ["bug", "build:bug"])
def test_a_bug_in_a_worker_is_raised_here_with_what_replays_it(runner: LocalRunner, fault: str) -> None:
    with pytest.raises(WorkerBug) as caught:
        measure(runner, fault)
    text = str(caught.value)
    assert "ZeroDivisionError: a bug, on purpose" in text
    assert "misbehave" in text
    assert "B[i] = A[i]" in text
    assert f"trace:\n{fault}" in text
    assert [reason(m) for m in measure(runner, "good")] == [None]


def test_a_worker_that_cannot_start_says_why(importable: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASCHED_TEST_FAULT", "start")
    with LocalRunner(settings()) as runner, pytest.raises(WorkerBug, match="cannot start, on purpose"):
        measure(runner, "good")


def test_workers_are_replaced_after_a_number_of_candidates(importable: None) -> None:
    with LocalRunner(settings(Limits(recycle_after=3), builders=1)) as runner:
        pids = [reason(m) for m in measure(runner, *["pid"] * 7)]
        assert [pids.index(pid) for pid in pids] == [0, 0, 0, 3, 3, 3, 6]
        usage = {u.name: u for u in runner.usage()}
    assert usage["runner"].starts == 3
    assert usage["runner"].requests == 7


def test_workers_are_replaced_when_they_have_grown(importable: None) -> None:
    with LocalRunner(settings(Limits(recycle_bytes=1 << 20), builders=1)) as runner:
        pids = [reason(m) for m in measure(runner, "pid", "pid")]
    assert pids[0] != pids[1]


def test_an_expected_result_may_take_more_memory_than_a_candidate(
    importable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METASCHED_TEST_FAULT", "prepare:much")
    with LocalRunner(settings(builders=1)) as made:
        made.prepare(PROGRAM)
        assert reason(measure(made, "good")[0]) is None


@pytest.mark.parametrize("fault", ["hoard", "reserve"])
def test_an_expected_result_that_memory_is_too_small_for_says_what_to_do(
    importable: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("metasched.measure.building.memory_for_expected_results", lambda least: least)
    monkeypatch.setenv("METASCHED_TEST_FAULT", f"prepare:{fault}")
    with (
        LocalRunner(settings(builders=1)) as made,
        pytest.raises(CheckError, match="tune the program at a smaller size"),
    ):
        list(made.measure(PROGRAM, ["good"], "target"))


def await_ready(runner: LocalRunner) -> None:
    """Until every worker has started."""
    for worker in (*runner._building.workers, runner._runner):
        worker.await_ready()


def test_closing_ends_what_is_under_way(importable: None) -> None:
    others = set(psutil.Process().children())
    runner = LocalRunner(settings(Limits(), builders=1))
    await_ready(runner)
    (server,) = set(psutil.Process().children()) - others
    workers = server.children()
    assert len(workers) == 2
    futures = [runner.submit(PROGRAM, trace, "target") for trace in ("build:hang", "good")]
    time.sleep(0.1)
    runner.close()
    for future in futures:
        with pytest.raises(RunnerClosed):
            future.result(timeout=60)
    for ask in (lambda: runner.submit(PROGRAM, "good", "target"), lambda: runner.prepare(PROGRAM)):
        with pytest.raises(RunnerClosed, match="this runner is closed\n  hint: make another to measure more"):
            ask()
    assert psutil.wait_procs([server, *workers], timeout=60)[1] == []
    runner.close()


def test_temporary_files_go_with_the_runner(importable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LocalRunner(settings()) as runner:
        measure(runner, "good")
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that forking with threads is unwise is the point
def test_a_fork_that_ends_takes_nothing_along(
    importable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LocalRunner(settings(builders=1)) as runner:
        child = os.fork()
        if child == 0:
            runner._cleanup()
            os._exit(0)
        os.waitpid(child, 0)
        assert list(tmp_path.iterdir())
        assert [reason(m) for m in measure(runner, "good")] == [None]


PARENT = """
    import sys, time
    sys.path.insert(0, sys.argv[1])
    from metasched.lang import parse_program
    from metasched.measure.records import Limits
    from metasched.measure.runner import LocalRunner, RunnerSettings
    program = parse_program("program p[N=4](A: f32[N]) -> B: f32[N]:\\n    B[i] = A[i]\\n")
    try:
        with LocalRunner(RunnerSettings(threads=1, builders=1, worker="faulty_worker")) as runner:
            for worker in (*runner._building.workers, runner._runner):
                worker.await_ready()
            print("ready", flush=True)
            list(runner.measure(program, [sys.argv[2]] * 3, "target"))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def _start_parent(fault: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A process that measures, and its workers, in the middle of `fault`."""
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(WORKERS), fault],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n", parent.communicate()[1]
    time.sleep(0.2)
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert len(workers) == 3  # with the one that they are forked from
    return parent, workers


def _end(parent: subprocess.Popen[str], sent: signal.Signals) -> tuple[int, str, str]:
    os.kill(parent.pid, sent)
    out, err = parent.communicate(timeout=60)
    return parent.returncode, out, err


@pytest.mark.parametrize("fault", ["spin", "build:hang"])
def test_ctrl_c_leaves_no_orphans_and_is_told(fault: str) -> None:
    parent, workers = _start_parent(fault)
    code, out, err = _end(parent, signal.SIGINT)
    assert (code, out) == (0, "interrupted\n"), err
    assert not re.search("Traceback|Error", err)
    assert psutil.wait_procs(workers, timeout=60)[1] == []


@pytest.mark.parametrize("fault", ["spin", "build:hang"])
def test_workers_die_with_a_parent_that_is_killed(fault: str) -> None:
    parent, workers = _start_parent(fault)
    code, _, _ = _end(parent, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert psutil.wait_procs(workers, timeout=60)[1] == []
