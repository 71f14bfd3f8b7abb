"""Two processes that tune one task share the work, and one that was killed before costs them nothing."""

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
TRIALS = 6


def begin(folder: Path, trials: int, seed: int) -> subprocess.Popen[str]:
    """A process that tunes; what it draws costs it little, and so does the guess among few rules."""
    command = [sys.executable, "-m", "metasched", "tune", "tiny.ms", "--trials", str(trials), "--db", URL, "--json"]
    options = ("--strategy", "random", "--rules", "multi_level_tiling,vectorize", "--seed", str(seed))
    return subprocess.Popen([*command, *options], cwd=folder, stdout=subprocess.PIPE, text=True)


def test_no_code_is_measured_twice_and_a_process_that_is_killed_holds_nothing_back(tmp_path: Path) -> None:
    (tmp_path / "tiny.ms").write_text(PROGRAM)
    killed = begin(tmp_path, 500, 0)
    assert killed.stdout is not None
    assert json.loads(killed.stdout.readline())["event"] == "progress"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    before = codes_of(tmp_path)
    trials = len(before) + TRIALS
    processes = [begin(tmp_path, trials, 0), begin(tmp_path, trials, 0)]
    results = []
    for process in processes:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        results.append(json.loads(out.splitlines()[-1]))
    codes = codes_of(tmp_path)
    assert len(codes) == len(set(codes))
    assert trials <= len(codes) <= trials + 2, "each may find at the end that the other was quicker"
    assert sum(result["measured"] for result in results) == len(codes) - len(before)
    assert all(result["trials"] >= trials for result in results)


def codes_of(folder: Path) -> list[str]:
    """The code of every record."""
    with open_database(f"sqlite:///{folder}/shared.db", Access.READ) as database:
        return [record.code for task in database.stats().tasks for record in database.records(task.task)]
