"""A process that is killed at any instant leaves every measurement whose `add` had returned."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from metasched.database import Access, TaskKey, open_database

TASK = TaskKey("h", "t", 2)
WRITER = """
import sys
from metasched.database import Record, TaskKey, Visit, open_database
task = TaskKey("h", "t", 2)
with open_database(sys.argv[1]) as db:
    start = db.count(task)
    for trial in range(start, start + 100_000):
        db.add(Record(task, "p" * 500, (("N", 1),), "t" * 2000, (Visit((1.0,)),), None, False, (), 0.0, 0, trial))
        sys.stdout.write(f"{trial}\\n")
        sys.stdout.flush()
"""


def _write_until_killed(url: str, seconds: float) -> int:
    """Run the writer, kill it, and return the last trial it said was stored (-1 for none)."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    # A line that the kill cut short was never completed, and promises nothing.
    lines = [line for line in (first + process.stdout.read()).splitlines(keepends=True) if line.endswith("\n")]
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return int(lines[-1])


def test_kill_9_loses_no_finished_measurement(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'k.db'}"
    rng = random.Random(0)
    for _ in range(3):
        last = _write_until_killed(url, rng.uniform(0.0, 0.1))
        with open_database(url, Access.READ) as db:
            trials = [record.trial for record in db.records(TASK)]
        assert trials == list(range(len(trials)))
        assert len(trials) >= last + 1
