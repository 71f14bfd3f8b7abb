"""What the machine denies (a killed worker, files, space, threads) is a sentence, and nothing is left behind."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from metasched.errors import ResourceError
from metasched.lang import parse_program
from metasched.measure.records import CheckError, Failure, Measurement
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.workers import temporary
from tests.support.kept_workers import BRIEFLY

WORKERS = Path(__file__).parent / "workers"
PROGRAM = parse_program("program p[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n")
TINY = """program tiny[N=16](A: f32[N, N]) -> C: f32[N, N]:
    C[i, j] = A[i, j] * 2
"""
TUNE = ("-m", "metasched", "tune", "tiny.ms", "--trials", "1", "--strategy", "random")
Breaking = Callable[[str], None]


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Breaking:
    """Has workers misbehave early, and temporary files in a folder of the test's own."""
    (tmp_path / "times").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.syspath_prepend(str(WORKERS))
    monkeypatch.setenv("METASCHED_TEST_FOLDER", str(tmp_path / "times"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return lambda fault: monkeypatch.setenv("METASCHED_TEST_FAULT", fault)


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "tmp").iterdir())


def settings() -> RunnerSettings:
    return RunnerSettings(threads=1, builders=1, plan=BRIEFLY, worker="faulty_worker")


def measure(runner: LocalRunner, *traces: str) -> list[Measurement]:
    return list(runner.measure(PROGRAM, traces, "target"))


@pytest.mark.parametrize("fault", ["start:kill*2", "start:exit*1", "prepare:kill*2"])
def test_what_dies_before_a_candidate_is_started_again(breaking: Breaking, fault: str) -> None:
    breaking(fault)
    with LocalRunner(settings()) as runner:
        assert [m.failure for m in measure(runner, "good", "good")] == [None, None]


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("fork", ResourceError, r"starting a worker process failed: .*\n  hint: .*ulimit -u"),
        ("start:kill", ResourceError, r"ended while it started, 3 times \(crash SIGKILL\)"),
        ("start:exit", ResourceError, r"ended while it started, 3 times \(crash exit 1\): the reason\n  hint: "),
        ("start:import", ResourceError, "a worker process cannot start: libx.so: .* Too many open files"),
        ("start:full", ResourceError, "cannot start: starting failed: No space left on device\n  hint: free some"),
        ("prepare:kill", CheckError, r"computing the expected result of p\[N=4\] failed: crash SIGKILL"),
        ("prepare:full", ResourceError, r"the expected result of p\[N=4\] failed: .*No space left on device"),
        ("build:full", ResourceError, "measuring a candidate failed: .*No space left on device"),
    ],
)
def test_what_cannot_be_had_is_a_sentence(
    breaking: Breaking, tmp_path: Path, fault: str, error: type[Exception], message: str
) -> None:
    breaking(fault)
    with LocalRunner(settings()) as runner, pytest.raises(error, match=message):
        measure(runner, "good")
    assert left(tmp_path) == []


def test_processes_killed_while_idle_cost_nothing(breaking: Breaking) -> None:
    others = set(psutil.Process().children())
    with LocalRunner(settings()) as runner:
        measure(runner, "good")
        (server,) = set(psutil.Process().children()) - others
        workers = server.children()
        assert len(workers) == 2
        for killed in (workers, [server]):  # the process that workers are forked from, with them
            for process in killed:
                process.send_signal(signal.SIGKILL)
            wait_for_end([server, *workers] if server in killed else workers)
            assert [m.failure for m in measure(runner, "good")] == [None]


def test_a_worker_that_dies_after_its_output_was_removed(breaking: Breaking, tmp_path: Path) -> None:
    """As by what cleans folders for temporary files, or where it never had any."""
    with LocalRunner(settings()) as runner:
        measure(runner, "good")
        (folder,) = left(tmp_path)
        for output in folder.glob("*.stderr"):
            output.unlink()
        lost, after = measure(runner, "build:exit 3", "good")
    assert lost.failure == Failure("crash exit 3", "")
    assert after.failure is None


def wait_for_end(processes: list[psutil.Process]) -> None:
    """Until each has ended: its sockets are closed, and it is gone or left to whoever started it to ask about."""
    end = time.monotonic() + 60
    while any(map(runs, processes)):
        assert time.monotonic() < end
        time.sleep(0.01)


def runs(process: psutil.Process) -> bool:
    """Whether it holds its files: a process whose first thread has ended does until its last thread has."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False


def test_a_folder_for_data_that_is_full(breaking: Breaking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("metasched.measure.expected_results.write_arrays", full)
    with LocalRunner(settings()) as runner, pytest.raises(ResourceError, match=r"writing data to .*No space left"):
        measure(runner, "good")
    assert left(tmp_path) == []


def test_no_process_to_be_had(breaking: Breaking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = set(psutil.Process().children())

    def scarce(*args: object, **kwargs: object) -> object:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    files = psutil.Process().num_fds()
    monkeypatch.setattr("subprocess.Popen", scarce)
    with pytest.raises(ResourceError, match=r"starting a worker process failed: .*\n  hint: .*ulimit -u"):
        LocalRunner(settings())
    assert left(tmp_path) == []
    assert set(psutil.Process().children()) == started
    assert psutil.Process().num_fds() == files


def test_no_folder_for_temporary_files(breaking: Breaking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(ResourceError, match=r"no folder for temporary files: .*\n  hint: .*TMPDIR"):
        LocalRunner(settings())


def metasched(
    folder: Path, *, limits: Callable[[], None] | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    (folder / "tiny.ms").write_text(TINY)
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, *TUNE, "--db", "sqlite:///:memory:"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), **env},
        preexec_fn=limits,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("kind", "limit", "message"),
    [
        (resource.RLIMIT_NOFILE, 10, "Too many open files"),
        (resource.RLIMIT_FSIZE, 1000, "File too large"),
    ],
)
def test_a_limit_is_told_by_the_command_line(tmp_path: Path, kind: int, limit: int, message: str) -> None:
    # Python would leave compiled modules cut off at the limit, which no later process could read.
    keep_no_modules = {"PYTHONDONTWRITEBYTECODE": "1"}
    done = metasched(tmp_path, limits=lambda: resource.setrlimit(kind, (limit, limit)), **keep_no_modules)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "hint: raise the limit" in done.stderr
    assert "Traceback" not in done.stderr
    assert left(tmp_path) == []


def test_closed_standard_files(tmp_path: Path) -> None:
    """Pipes to workers would take their numbers."""
    (tmp_path / "tiny.ms").write_text(TINY)
    command = f"'{sys.executable}' {' '.join(TUNE)} --db sqlite:///t.db <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=120, check=False).returncode == 0
    assert (tmp_path / "t.db").exists()


def test_a_threading_layer_that_is_not_there(tmp_path: Path) -> None:
    """Kernels do without one."""
    done = metasched(tmp_path, NUMBA_THREADING_LAYER="tbb")
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []


# --- what killed runs leave


OWNER = """
import os, sys, signal
from metasched.measure.workers.temporary import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "data").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
"""


def _owner(tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_folders_of_killed_runs_go_and_those_of_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive, kept = _owner(tmp_path)
    dead, abandoned = _owner(tmp_path)
    dead.kill()
    dead.communicate()
    strange = tmp_path / "metasched-notes"  # somebody else's, whatever its name
    strange.mkdir()
    (tmp_path / "metasched-file").touch()
    link = tmp_path / "metasched-link"
    link.symlink_to(strange)
    monkeypatch.setattr("os.getuid", lambda: os.geteuid() + 1)
    assert temporary.remove_abandoned(tmp_path) == []  # another user's
    monkeypatch.undo()
    assert temporary.remove_abandoned(tmp_path) == [abandoned]
    assert not abandoned.exists()
    assert (kept / "data").exists()
    assert strange.exists()
    alive.communicate("")
    assert temporary.remove_abandoned(tmp_path) == [kept]


def test_a_runner_removes_what_killed_ones_left(breaking: Breaking, tmp_path: Path) -> None:
    dead, abandoned = _owner(tmp_path / "tmp")
    dead.kill()
    dead.communicate()
    with LocalRunner(settings()):
        assert not abandoned.exists()
        assert len(left(tmp_path)) == 1
    assert left(tmp_path) == []


def test_without_locks_a_folder_still_goes_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(file: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", unknown)
    folder = temporary.TemporaryFolder()
    assert temporary.remove_abandoned(tmp_path) == []
    folder.close()
    assert list(tmp_path.iterdir()) == []
