"""Parallel kernels beside both of Numba's threading layers, in processes of their own.

A layer is chosen once per process, and what goes wrong here may end the process. The scenarios are in
`threads_scenarios.py`; one process a layer runs them all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NAMES = (
    "fork_before_threads_have_started",
    "any_number_of_threads",
    "each_thread_has_its_slice",
    "numba_thread_count_is_respected",
    "numba_thread_count_is_respected_everywhere",
    "same_bits_at_every_call",
    "many_python_threads_at_once",
    "gil_is_released",
    "from_njit_code",
    "from_prange",
    "from_njit_code_without_the_gil_in_several_threads",
    "callers_are_not_cached",
    "code_lives_as_long_as_a_compiled_caller",
    "code_is_freed_with_its_kernel",
    "fork_after_threads_have_started",
)


@cache
def run(layer: str, *names: str) -> tuple[int, str, str]:
    """Exit status, standard output and error of scenarios in a process."""
    env = {
        **os.environ,
        "NUMBA_THREADING_LAYER": layer,
        "NUMBA_NUM_THREADS": "3",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.threads_scenarios", layer, *names],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_scenario(layer: str, name: str) -> None:
    status, out, error = run(layer)
    assert f"passed {name}\n" in out, f"exit status {status}\n{out}\n{error}"


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_process_ends_well(layer: str) -> None:
    status, _, error = run(layer)
    assert status == 0, error
