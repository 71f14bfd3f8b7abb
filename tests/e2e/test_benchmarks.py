"""The benchmarks compare like with like: programs, peers and inputs agree, and the registry is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.registry import BENCHMARKS
from benchmarks.sides import compare
from benchmarks.workloads import WORKLOADS
from metasched.backend.reference import reference
from metasched.lang import load_program

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_program_computes_what_numpy_does(name: str) -> None:
    workload = WORKLOADS[name]
    program = load_program(workload.file, **workload.params)
    inputs = workload.inputs()
    expected = workload.peers["numpy"](*inputs)
    actual = reference(program)(*inputs)
    assert isinstance(actual, np.ndarray)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, atol=workload.tolerance * np.abs(expected).max())


@pytest.mark.slow
def test_peers_are_timed_in_processes_of_their_own() -> None:
    peers = ("numpy", "naive Numba")
    times = compare("relu_pad_matmul", {}, peers, threads=1, rounds=2)
    assert set(times) == set(peers)
    assert all(len(side.blocks) == 2 and side.median > 0 for side in times.values())


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_there(name: str) -> None:
    assert callable(BENCHMARKS[name].run)


def test_without_a_name_all_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert all(name in done.stdout for name in BENCHMARKS)
