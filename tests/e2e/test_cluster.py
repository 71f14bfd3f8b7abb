"""A kernel tuned on a machine that has joined a scheduler: `metasched worker`, and `runner="dask://..."`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ResourceError
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.connection import Connection
from metasched.measure.workers.temporary import remove_abandoned
from tests.support.certificates import authority, certificate
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
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    command = [*WORKER, place, "--builders", "1", "--name", "bench"]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    assert worker.stderr is not None
    program = ms.parse_program(PROGRAM)
    given = {"A": lambda rng, shape, dtype: rng.uniform(1, 2, shape).astype(dtype), "B": (0.0, 1.0)}
    kernel = ms.tune(program, 4, f"sqlite:///{tmp_path}/t.db", runner=f"dask://{place}", progress=False, inputs=given)
    assert kernel.report.records == 4
    assert not kernel.report.failures
    assert {name for name, _ in kernel.report.best.phases} >= {"replay", "lower", "compile", "reference", "check"}
    a, b = np.ones((24, 16), np.float32), np.ones((16, 24), np.float32)
    assert np.allclose(kernel(a, b), np.maximum(a @ b, 0))
    assert worker_names(cluster) == ["bench"]
    worker.terminate()
    said = worker.stderr.read()
    worker.stderr.close()
    worker.wait(30)
    assert "this machine trusts the scheduler at tcp://127.0.0.1" in said
    assert "joined as tcp://127.0.0.1" in said
    # What it left, as it was ended by a signal, goes with the next runner.
    assert any(temporary.glob("metasched-*/dask-scratch-space"))
    remove_abandoned(temporary)
    assert not list(temporary.glob("metasched-*"))


def worker_names(cluster: Cluster) -> list[str]:
    """What the scheduler knows its workers by."""
    with closing(Connection(cluster.address, 10.0)) as connection:
        client = connection._client
        found = client.sync(client.scheduler.identity, n_workers=-1)
    return [worker["name"] for worker in found["workers"].values()]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the command openssl, which makes certificates, is missing")
def test_a_kernel_is_tuned_elsewhere_by_tls_and_strangers_get_no_answer(tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    host, worker, me = (certificate(tmp_path, name, ours) for name in ("host", "worker", "me"))
    stranger = certificate(tmp_path, "stranger", authority(tmp_path, "theirs"))
    with ExitStack() as own:
        place = tls_scheduler(own, tmp_path, host)
        files = [part for name, path in parse_qsl(worker) for part in (f"--tls-{name}", path)]
        started(own, [*WORKER, place, *files, "--builders", "1"])
        program = ms.parse_program(PROGRAM)
        kernel = ms.tune(program, 2, f"sqlite:///{tmp_path}/t.db", runner=f"dask://{place}?{me}", progress=False)
        assert kernel.report.records == 2
        assert not kernel.report.failures
        for other in (place, f"{place}?{stranger}"):  # without TLS, and by another authority
            with pytest.raises(ResourceError, match=r"127\.0\.0\.1"):
                Connection(SchedulerAddress.parse(other), 2.0)


def tls_scheduler(own: ExitStack, folder: Path, files: str) -> str:
    """The host and the port of a scheduler that takes certificates of an authority."""
    found = folder / "scheduler.json"
    ca, cert, key = (path for _, path in parse_qsl(files))
    tls = ["--protocol", "tls", "--tls-ca-file", ca, "--tls-cert", cert, "--tls-key", key]
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    started(own, [*scheduler, *tls, "--no-dashboard", "--scheduler-file", str(found)])
    until = time.monotonic() + 60
    while not (found.exists() and found.read_text().rstrip().endswith("}")):
        assert time.monotonic() < until, "the scheduler does not start"
        time.sleep(0.05)
    address = str(json.loads(found.read_text())["address"])
    assert address.startswith("tls://127.0.0.1:")
    return address.removeprefix("tls://")


def started(own: ExitStack, command: list[str]) -> None:
    """Start a process that ends with the test."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    own.callback(process.wait)
    own.callback(process.kill)


def test_a_worker_joins_no_other_machine_without_tls() -> None:
    done = subprocess.run([*WORKER, "team.example:8786"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "the scheduler `team.example:8786` is not this machine" in done.stderr
