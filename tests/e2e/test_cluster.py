"""A kernel tuned on a machine that has joined a scheduler: `metasched worker`, and `runner="dask://..."`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from tests.support.cluster import Cluster

PROGRAM = """\
program tiny[N=24, K=16](A: f32[N, K], B: f32[K, N]) -> D: f32[N, N]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu: D[i, j] = max(C[i, j], 0)
"""
WORKER = [sys.executable, "-m", "metasched", "worker"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


def test_a_kernel_is_tuned_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    place = f"127.0.0.1:{cluster.address.port}"
    worker = subprocess.Popen([*WORKER, place, "--builders", "1"], stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    program = ms.parse_program(PROGRAM)
    given = {"A": lambda rng, shape, dtype: rng.uniform(1, 2, shape).astype(dtype), "B": (0.0, 1.0)}
    kernel = ms.tune(program, 4, f"sqlite:///{tmp_path}/t.db", runner=f"dask://{place}", progress=False, inputs=given)
    assert kernel.report.records == 4
    assert not kernel.report.failures
    assert {name for name, _ in kernel.report.best.phases} >= {"replay", "lower", "compile", "reference", "check"}
    a, b = np.ones((24, 16), np.float32), np.ones((16, 24), np.float32)
    assert np.allclose(kernel(a, b), np.maximum(a @ b, 0))
    worker.terminate()
    said = worker.stderr.read()
    worker.stderr.close()
    worker.wait(30)
    assert "this machine trusts the scheduler at tcp://127.0.0.1" in said
    assert "joined as tcp://127.0.0.1" in said


def test_a_worker_joins_no_other_machine_without_tls() -> None:
    done = subprocess.run([*WORKER, "team.example:8786"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "the scheduler `team.example:8786` is not this machine" in done.stderr
