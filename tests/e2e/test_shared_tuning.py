"""Two processes that tune one task share the work, and one that is killed costs the other nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from metasched.database import Access, open_database

PROGRAM = """\
program tiny[N=24, K=16](A: f32[N, K], B: f32[K, N]) -> D: f32[N, N]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu: D[i, j] = max(C[i, j], 0)
"""
URL = "sqlite:///shared.db"
TRIALS = 8


def begin(folder: Path, trials: int, seed: int) -> subprocess.Popen[str]:
    """A process that tunes; what it draws costs it little."""
    command = [sys.executable, "-m", "metasched", "tune", "tiny.ms", "--trials", str(trials), "--db", URL, "--json"]
    options = ("--strategy", "random", "--seed", str(seed))
    return subprocess.Popen([*command, *options], cwd=folder, stdout=subprocess.PIPE, text=True)


def test_no_code_is_measured_twice(tmp_path: Path) -> None:
    (tmp_path / "tiny.ms").write_text(PROGRAM)
    processes = [begin(tmp_path, TRIALS, 0), begin(tmp_path, TRIALS, 0)]
    results = []
    for process in processes:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        results.append(json.loads(out.splitlines()[-1]))
    with open_database(f"sqlite:///{tmp_path}/shared.db", Access.READ) as database:
        (task,) = database.stats().tasks
        records = database.records(task.task)
    codes = [record.code for record in records]
    assert len(codes) == len(set(codes))
    assert TRIALS <= len(codes) <= TRIALS + 2, "each may find at the end that the other was quicker"
    assert sum(result["measured"] for result in results) == len(codes)


def test_a_process_that_is_killed_holds_nothing_back(tmp_path: Path) -> None:
    (tmp_path / "tiny.ms").write_text(PROGRAM)
    killed = begin(tmp_path, 500, 0)
    assert killed.stdout is not None
    assert json.loads(killed.stdout.readline())["event"] == "progress"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    after = begin(tmp_path, TRIALS, 0)
    out, _ = after.communicate(timeout=300)
    assert after.returncode == 0
    assert json.loads(out.splitlines()[-1])["trials"] >= TRIALS
