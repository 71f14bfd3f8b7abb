"""The pool of threads in processes of their own: starting and ending, forks, signals. Each is given a minute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = "tests.support.pool_scenarios"
ENDINGS = ("the_process_ends_while_threads_look_for_work", "the_process_ends_while_a_thread_runs_regions")

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at threads as Linux shows them")


def passes(name: str) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", SCENARIOS, name],
            env={**os.environ, "NUMBA_NUM_THREADS": "3"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"it hangs\n{error.stdout}\n{error.stderr}")
    said = f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert (done.returncode, done.stdout) == (0, f"passed {name}\n"), said


@pytest.mark.parametrize(
    "name",
    [
        "threads_are_one_fewer_than_chunks_and_stay",
        "a_process_of_serial_kernels_has_no_pool",
        "threads_without_work_sleep",
        "threads_leave_signals_to_others",
        "as_many_chunks_as_there_may_be",
        "the_system_gives_no_threads",
        "forks_of_every_kind",
        "forks_beside_threads_that_run_regions",
        "signal_handlers_call",
        "waiting_takes_about_as_long_as_threads_look",
        "exported_kernels_and_the_package_share_a_pool",
    ],
)
def test_scenario(name: str) -> None:
    passes(name)


@pytest.mark.parametrize("name", ENDINGS)
def test_the_process_ends(name: str) -> None:
    for _ in range(3):
        passes(name)
