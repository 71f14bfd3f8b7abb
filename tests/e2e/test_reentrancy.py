"""Signal handlers and forks while kernels are compiled: nothing hangs. Each in a process that is given a minute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = "tests.support.reentrancy_scenarios"


@pytest.mark.parametrize(
    "name",
    [
        "handler_calls_the_function_that_compiles",
        "handler_calls_while_imports_are_under_way",
        "handler_calls_another_function",
        "handler_packs_the_kernel_that_packs",
        "fork_beside_a_thread_that_compiles",
        "fork_beside_a_thread_inside_llvm",
        "fork_from_a_handler_while_compiling",
        "many_forks_beside_threads_that_compile",
    ],
)
def test_scenario(name: str, tmp_path: Path) -> None:
    env = {**os.environ, "METASCHED_CACHE": str(tmp_path), "NUMBA_THREADING_LAYER": "workqueue"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", SCENARIOS, name],
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"it hangs\n{error.stdout}\n{error.stderr}")
    assert done.stdout == f"passed {name}\n", f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
