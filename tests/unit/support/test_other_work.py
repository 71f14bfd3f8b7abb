"""What else ran is told in words, and counted from when one began to look."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from metasched.support import other_work
from metasched.support.other_work import OtherWork, Watch


@pytest.mark.parametrize(
    ("seen", "disturbs", "said"),
    [
        (OtherWork(0.0, 0.0), False, "others use 0.00 cores"),
        (OtherWork(0.3, 0.0, (("indexer", 0.28), ("shell", 0.02))), False, "others use 0.30 cores (indexer 28%)"),
        (OtherWork(1.9, 0.0, (("cc1plus", 1.9),)), True, "others use 1.90 cores (cc1plus 190%)"),
        (OtherWork(0.0, 0.07), True, "the host gave 7% of this machine's time to others"),
        (
            OtherWork(1.0, 0.07, (("make", 1.0),)),
            True,
            "the host gave 7% of this machine's time to others; others use 1.00 cores (make 100%)",
        ),
    ],
)
def test_what_was_seen(seen: OtherWork, disturbs: bool, said: str) -> None:
    assert (seen.disturbs, str(seen)) == (disturbs, said)


def test_what_is_used_from_now_on_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process used before does not, and one that has begun meanwhile counts whole."""
    seen = iter([{1: ("old", 50.0), 2: ("gone", 9.0)}, {1: ("old", 50.5), 3: ("new", 0.25)}])
    clock = iter([10.0, 11.0])
    monkeypatch.setattr(other_work, "_used_seconds", lambda: next(seen))
    monkeypatch.setattr(other_work, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = Watch().work_seen()
    assert found.cores == pytest.approx(0.75)
    assert found.busiest == (("old", 0.5), ("new", 0.25))


def test_other_processes_are_seen_with_their_time() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\nprint(1, flush=True)\ninput()"
    command = [sys.executable, "-S", "-c", busy]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        used = other_work._used_seconds()
        name = psutil.Process(other.pid).name()
        other.communicate(b"\n")
    assert used[other.pid][0] == name
    assert used[other.pid][1] > 0.15, "the system counts in hundredths of a second"
    assert os.getpid() not in used
